package devserver

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const follow = "/aip/v1/actions/act_1/events?follow=true&include_chunks=true"

func TestFollowWorksFromBeforeTheSubmit(t *testing.T) {
	withDaemon(t, Options{Speed: 1}, func(t *testing.T, d *daemon) {
		frames := d.follow(t.Context(), follow)
		sleep(time.Minute)
		d.submit("chat-stop", "act_1", nil).want(t, 200)
		if got := rest(frames); got[len(got)-1].name != "aip.stream.terminal" {
			t.Errorf("the stream ends with %+v", got[len(got)-1])
		}
	})
}

// TestFrameLayout: event, data, id, in this order, and one cursor per page that
// brought something. Only cursor and terminal frames carry cursors.
func TestFrameLayout(t *testing.T) {
	withGate(t, 1, func(t *testing.T, d *daemon, g *gate) {
		done := d.submitting(t.Context(), "chat-empty", "act_1", nil)
		<-g.held
		frames := d.follow(t.Context(), follow)
		first := arrived(frames)
		if got := names(first); got != "aip.stream.chunk aip.stream.chunk aip.stream.cursor" {
			t.Fatalf("the first page is %s", got)
		}
		record, content, cursor := first[0], first[1], first[2]
		eventID, _ := at(t, record.data, "/event/id").(string)
		if record.id != eventID || !strings.HasPrefix(eventID, "evt_stream_") || len(eventID) != len("evt_stream_")+64 {
			t.Errorf("the event record has id %q and event %q", record.id, eventID)
		}
		if got := fmt.Sprint(at(t, record.data, "/event/data")); got != "map[action_id:act_1 kind:data sequence:0]" {
			t.Errorf("the event data is %s", got)
		}
		if content.id != "chunk:0" || at(t, content.data, "/chunk/sequence") != json.Number("0") {
			t.Errorf("the chunk frame is %+v", content)
		}
		if cursor.id != "aev_cursor_1_0" || cursor.data != `{"next_cursor":"aev_cursor_1_0"}` {
			t.Errorf("the cursor frame is %+v", cursor)
		}
		close(g.open)
		<-done
		all := rest(frames)
		if got := names(all); got != "aip.stream.chunk aip.stream.chunk aip.action.result aip.stream.chunk aip.stream.chunk aip.stream.cursor aip.stream.terminal" {
			t.Errorf("the last page is %s", got)
		}
		last := all[len(all)-1]
		if last.data != `{"terminal":true,"action_id":"act_1"}` || last.id != "aev_cursor_4_2" {
			t.Errorf("the terminal frame is %+v", last)
		}
	})
}

func TestEarlyTerminalMark(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		d.submit("chat-stop", "act_1", nil).want(t, 200)
		got := rest(d.follow(t.Context(), follow+"&limit=4"))
		if names(got) != "aip.stream.chunk aip.stream.chunk aip.stream.chunk aip.stream.chunk aip.stream.cursor aip.stream.terminal" {
			t.Fatalf("the stream is %s", names(got))
		}
		for _, f := range got[:4] {
			if !strings.HasPrefix(f.data, `{"event":`) {
				t.Errorf("the page has room for %s", f.data)
			}
		}
		// The rest comes by reading on from the terminal frame's cursor.
		cursor, items := got[5].id, 4
		for range 20 {
			r := d.get("/aip/v1/actions/act_1/events?include_chunks=true&limit=4&cursor=" + cursor)
			r.want(t, 200, "/action_events/terminal", "true")
			n := strings.Count(r.body, `"evt_`) + strings.Count(r.body, `"hermes_sse"`)
			if n == 0 {
				break
			}
			items += n
			cursor = r.at(t, "/action_events/cursor").(string)
		}
		if items != 11+10 {
			t.Errorf("%d items, want 11 events and 10 chunks", items)
		}
	})
}

func TestKeepAliveAfterSilence(t *testing.T) {
	for _, tc := range []struct {
		rule string
		set  time.Duration
		want time.Duration
	}{
		{"15 s by default", 0, 15 * time.Second},
		{"or as set", 2 * time.Second, 2 * time.Second},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			withDaemon(t, Options{KeepAlive: tc.set}, func(t *testing.T, d *daemon) {
				frames := d.follow(t.Context(), follow)
				sleep(tc.want - time.Millisecond)
				if got := arrived(frames); len(got) != 0 {
					t.Errorf("before: %v", got)
				}
				sleep(time.Millisecond)
				if got := arrived(frames); len(got) != 1 || got[0].data != ": keep-alive" {
					t.Errorf("after: %v", got)
				}
				sleep(2 * tc.want)
				if got := arrived(frames); len(got) != 2 {
					t.Errorf("later: %v", got)
				}
			})
		})
	}
}

// TestDataResetsTheKeepAlive: the longest silence of this 25 s stream is under
// 3 s, so a keep-alive of 4 s never fires.
func TestDataResetsTheKeepAlive(t *testing.T) {
	withDaemon(t, Options{KeepAlive: 4 * time.Second, Speed: 1}, func(t *testing.T, d *daemon) {
		frames := d.follow(t.Context(), follow)
		d.submit("chat-slow", "act_1", nil).want(t, 200)
		for _, f := range rest(frames) {
			if f.name == ":" {
				t.Errorf("a comment in a stream that was never silent")
			}
		}
	})
}

func TestPollIntervalAfterAnEmptyPage(t *testing.T) {
	for _, tc := range []struct {
		rule string
		set  time.Duration
		want time.Duration
	}{
		{"500 ms by default", 0, 500 * time.Millisecond},
		{"or as set", 80 * time.Millisecond, 80 * time.Millisecond},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			withDaemon(t, Options{Poll: tc.set}, func(t *testing.T, d *daemon) {
				frames := d.follow(t.Context(), follow)
				synctest.Wait()
				d.submit("chat-stop", "act_1", nil).want(t, 200)
				sleep(tc.want - time.Millisecond)
				if got := arrived(frames); len(got) != 0 {
					t.Errorf("before the poll: %s", names(got))
				}
				sleep(time.Millisecond)
				if got := arrived(frames); len(got) == 0 {
					t.Errorf("nothing came with the poll")
				}
			})
		})
	}
}

func TestFollowOfAnUnknownActionNeverEnds(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		ctx, leave := context.WithCancel(t.Context())
		frames := d.follow(ctx, follow)
		sleep(time.Hour)
		got := arrived(frames)
		for _, f := range got {
			if f.name != ":" {
				t.Errorf("a frame %+v", f)
			}
		}
		if len(got) != 60*4 {
			t.Errorf("%d comments in an hour", len(got))
		}
		leave()
		rest(frames)
	})
}

func TestFollowStaysOpenAfterAHandlerError(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		frames := d.follow(t.Context(), follow)
		d.submit("chat-handler-failed", "act_1", nil).want(t, 503)
		sleep(time.Hour)
		if got := names(arrived(frames)); strings.Contains(got, "terminal") || strings.Count(got, "aip.stream.chunk") != 10 {
			t.Errorf("the stream is %.300s", got)
		}
	})
}

func TestBadCursor(t *testing.T) {
	for _, tc := range []struct{ rule, cursor, code string }{
		{"id of an event frame", "evt_0198f2a4c7de7b10a1b2c3d4e5f60720", "query.invalid_cursor"},
		{"id of a chunk frame", "chunk:0", "query.invalid_cursor"},
		{"missing sequence", "aev_cursor_3", "query.invalid_cursor"},
		{"sequence that is no number", "aev_cursor_3_x", "query.invalid_cursor"},
		{"negative offset", "aev_cursor_-1_none", "query.invalid_cursor"},
		{"offset cursor of a list", "offset:3", "query.invalid_cursor"},
		{"empty", "", "query.invalid_cursor"},
		{"beyond the log", "aev_cursor_12_none", "stream.cursor_expired"},
		{"beyond the log, global form", "evt_cursor_99", "stream.cursor_expired"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
				d.submit("chat-stop", "act_1", nil).want(t, 200) // 11 events
				d.get("/aip/v1/actions/act_1/events?cursor="+tc.cursor).want(t, 400,
					code, tc.code, "/body/error/error/details/cursor", tc.cursor)
				got := rest(d.follow(t.Context(), follow+"&cursor="+tc.cursor))
				if len(got) != 1 || got[0].name != "aip.error" || got[0].id != "" {
					t.Fatalf("the stream is %+v", got)
				}
				if c := at(t, got[0].data, "/error/code"); c != tc.code {
					t.Errorf("the frame says %v", c)
				}
			})
		})
	}
}

func TestCursorAtTheEndOfTheLogIsFine(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		d.submit("chat-stop", "act_1", nil).want(t, 200)
		d.get("/aip/v1/actions/act_1/events?cursor=aev_cursor_11_9&include_chunks=true").want(t, 200,
			"/action_events/events/0", "<nil>", "/action_events/chunks", "<nil>",
			"/action_events/cursor", "aev_cursor_11_9", "/action_events/terminal", "true")
	})
}

func TestLastEventIDHeader(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		d.submit("chat-stop", "act_1", nil).want(t, 200)
		for _, tc := range []struct{ rule, query, header, want string }{
			{"used when there is no cursor", "", " aev_cursor_10_9 ", "aip.action.result aip.stream.cursor aip.stream.terminal"},
			{"the query wins", "&cursor=aev_cursor_11_9", "aev_cursor_10_9", "aip.stream.terminal"},
			{"the id of a chunk frame is refused", "", "chunk:9", "aip.error"},
		} {
			got := rest(d.follow(t.Context(), follow+tc.query, "Last-Event-ID", tc.header))
			if names(got) != tc.want {
				t.Errorf("%s: the stream is %s", tc.rule, names(got))
			}
		}
		// Pages do not look at it.
		d.get("/aip/v1/actions/act_1/events", "Last-Event-ID", "chunk:9").want(t, 200)
	})
}

func TestPageLimitIsShared(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		d.submit("chat-stop", "act_1", nil).want(t, 200) // 11 events, 10 chunks
		for _, tc := range []struct {
			rule, query    string
			events, chunks int
		}{
			{"events fill the page first", "&limit=11", 11, 0},
			{"chunks get the room that is left", "&limit=14", 11, 3},
			{"kinds leave the room to chunks", "&limit=5&kinds=aip.action.result", 1, 4},
			{"kinds do not filter chunks", "&kinds=none", 0, 10},
			{"kind and kinds are merged", "&kinds=none,aip.action.result&kind=aip.stream.chunk", 11, 10},
			{"0 becomes 1", "&limit=0", 1, 0},
			{"the default is 100", "", 11, 10},
			{"a large one becomes 1000", "&limit=4000000000", 11, 10},
		} {
			r := d.get("/aip/v1/actions/act_1/events?include_chunks=true" + tc.query)
			r.want(t, 200, "/action_events/terminal", "true", "/action_events/action_id", "act_1")
			events, _ := r.at(t, "/action_events/events").([]any)
			chunks, _ := r.at(t, "/action_events/chunks").([]any)
			if len(events) != tc.events || len(chunks) != tc.chunks {
				t.Errorf("%s: %d events, %d chunks", tc.rule, len(events), len(chunks))
			}
		}
		r := d.get("/aip/v1/actions/act_1/events?limit=1000")
		if r.at(t, "/action_events/chunks") != nil {
			t.Errorf("chunks without being asked for")
		}
	})
}

func TestLimitIsClamped(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		d.server.store.mu.Lock()
		for range 2000 {
			d.server.store.append(&run{action: action{ID: "act_many"}}, "aip.note", nil)
		}
		d.server.store.mu.Unlock()
		for query, want := range map[string]int{"": 100, "?limit=5000": 1000, "?limit=1000": 1000, "?limit=7": 7} {
			r := d.get("/aip/v1/actions/act_many/events" + query)
			if got := len(r.at(t, "/action_events/events").([]any)); got != want {
				t.Errorf("limit %q gives %d events, want %d", query, got, want)
			}
		}
	})
}

func TestPageStopsAtFourMebibytesOfEvents(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		d.server.store.mu.Lock()
		for range 50 {
			d.server.store.append(&run{action: action{ID: "act_big"}}, "aip.note", strings.Repeat("x", 200<<10))
		}
		d.server.store.mu.Unlock()
		r := d.get("/aip/v1/actions/act_big/events?limit=1000")
		r.want(t, 200, "/action_events/cursor", "aev_cursor_20_none")
		if got := len(r.at(t, "/action_events/events").([]any)); got != 20 {
			t.Errorf("%d events of 200 KiB, want 20", got)
		}
	})
}

// TestCursorsCountTheGlobalLog: the offset is a position among the events of
// all actions, and an empty page still moves it.
func TestCursorsCountTheGlobalLog(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		d.submit("chat-stop", "act_0", nil).want(t, 200)
		d.get("/aip/v1/actions/act_1/events?include_chunks=true").want(t, 200,
			"/action_events/events/0", "<nil>", "/action_events/cursor", "aev_cursor_11_none")
		d.submit("chat-stop", "act_1", nil).want(t, 200)
		d.get("/aip/v1/actions/act_1/events?include_chunks=true&limit=3").want(t, 200,
			"/action_events/events/0/data/sequence", "0", "/action_events/cursor", "aev_cursor_14_none")
		d.get("/aip/v1/actions/act_1/events?include_chunks=true&cursor=evt_cursor_21").want(t, 200,
			"/action_events/events/0/kind", "aip.action.result",
			"/action_events/chunks/0/sequence", "0", "/action_events/cursor", "aev_cursor_22_9")
	})
}

func TestChunksRouteForcesKindAndChunks(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		d.submit("chat-stop", "act_1", nil).want(t, 200)
		r := d.get("/aip/v1/actions/act_1/chunks?kinds=aip.action.result&include_chunks=false")
		if strings.Contains(r.body, "aip.action.result") || strings.Count(r.body, `"hermes_sse"`) != 10 || strings.Count(r.body, `"evt_`) != 10 {
			t.Errorf("the page is %.300s", r.body)
		}
		got := rest(d.follow(t.Context(), "/aip/v1/actions/act_1/chunks?follow=true"))
		if strings.Contains(names(got), "aip.action.result") || got[len(got)-1].name != "aip.stream.terminal" {
			t.Errorf("the stream is %s", names(got))
		}
	})
}

func TestLargeLinesArriveWhole(t *testing.T) {
	withDaemon(t, Options{}, func(t *testing.T, d *daemon) {
		d.submit("responses-large", "act_1", fields{"input": fields{"body": fields{"input": "x"}}}).want(t, 200)
		longest := 0
		for _, f := range rest(d.follow(t.Context(), follow)) {
			longest = max(longest, len(f.data))
		}
		if longest < 128<<10 {
			t.Errorf("the longest line has %d bytes", longest)
		}
	})
}

// TestReadersMeetAWriter runs followers, pages and cancels against a stream, for
// the race detector.
func TestReadersMeetAWriter(t *testing.T) {
	withDaemon(t, Options{Speed: 1, Poll: 10 * time.Millisecond}, func(t *testing.T, d *daemon) {
		var streams []<-chan sseEvent
		for range 4 {
			streams = append(streams, d.follow(t.Context(), follow))
		}
		done := d.submitting(t.Context(), "demo", "act_1", nil)
		for range 20 {
			sleep(50 * time.Millisecond)
			d.get("/aip/v1/actions/act_1?include_chunks=true").want(t, 200)
			d.get("/aip/v1/actions/act_1/events?include_chunks=true").want(t, 200)
			d.get("/aip/v1/actions").want(t, 200)
		}
		(<-done).want(t, 200)
		for _, s := range streams {
			var seen []uint64
			for _, f := range rest(s) {
				if n, ok := at(t, f.data, "/chunk/sequence").(json.Number); ok {
					v, _ := n.Int64()
					seen = append(seen, uint64(v))
				}
			}
			for i, seq := range seen {
				if seq != uint64(i) {
					t.Fatalf("sequence %d at place %d", seq, i)
				}
			}
		}
	})
}
