package devserver

import (
	"testing"
)

func TestDemo(t *testing.T) {
	withDaemon(t, Options{Speed: 1}, func(t *testing.T, d *daemon) {
		frames := d.follow(t.Context(), "/aip/v1/actions/act_demo/events?follow=true&include_chunks=true")
		r := d.submit("demo", "act_demo", nil)
		r.want(t, 200, "/body/action_result/status", "completed")
		if got := rest(frames); got[len(got)-1].name != "aip.stream.terminal" {
			t.Errorf("the stream ends with %v", got[len(got)-1])
		}
	})
}
