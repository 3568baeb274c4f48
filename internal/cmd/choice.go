package cmd

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// choice is the value of a flag that takes one of a few words. Help, messages
// and completion read the words from it.
type choice struct {
	value *string
	words []string
}

// oneOf makes value the place of a choice, with the first word as its default.
func oneOf(value *string, words ...string) *choice {
	*value = words[0]
	return &choice{value, words}
}

// maybeOf makes value the place of a choice that is empty where the flag is not
// given.
func maybeOf(value *string, words ...string) *choice { return &choice{value, words} }

// String implements pflag.Value.
func (c *choice) String() string {
	if c.value == nil {
		return ""
	}
	return *c.value
}

// Type implements pflag.Value; help shows it as what to write.
func (c *choice) Type() string { return strings.Join(c.words, "|") }

// Set implements pflag.Value. It refuses what is none of the words.
func (c *choice) Set(s string) error {
	if !slices.Contains(c.words, s) {
		return errors.New("it is " + listed(c.words))
	}
	*c.value = s
	return nil
}

// listed is a list in words: a, b or c.
func listed(words []string) string {
	n := len(words) - 1
	if n == 0 {
		return words[0]
	}
	return fmt.Sprintf("%s or %s", strings.Join(words[:n], ", "), words[n])
}
