package fault

import (
	"errors"
	"fmt"
)

// Error is what a room returns when a person or a script has to act.
//
// Message is lower case without a full stop and never holds a token, a prompt,
// an output or a byte of a response body. Hint is the one safe next step.
type Error struct {
	Class    Class
	Code     string   // stable dotted code, the daemon's own where there is one
	Message  string   // what went wrong and why
	Hint     string   // what to do next; may be empty
	ActionID string   // the action concerned; may be empty
	Next     []string // argv of the exact next command; may be empty
	Err      error    // cause, for errors.Is; never printed on its own
}

// New makes an Error; the message is formatted as by fmt.Sprintf.
func New(class Class, code, format string, args ...any) *Error {
	return &Error{Class: class, Code: code, Message: fmt.Sprintf(format, args...)}
}

// Error returns the message, with the code where the message does not name it.
func (e *Error) Error() string {
	if e.Message == "" {
		return e.Code
	}
	return e.Message
}

// Unwrap gives the cause to errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Err }

// WithHint returns a copy that names the next step.
func (e *Error) WithHint(format string, args ...any) *Error {
	c := *e
	c.Hint = fmt.Sprintf(format, args...)
	return &c
}

// WithAction returns a copy that names the action concerned.
func (e *Error) WithAction(id string) *Error {
	c := *e
	c.ActionID = id
	return &c
}

// WithNext returns a copy that carries the argv of the next command.
func (e *Error) WithNext(argv ...string) *Error {
	c := *e
	c.Next = argv
	return &c
}

// Wrap returns a copy with a cause that errors.Is can find.
func (e *Error) Wrap(err error) *Error {
	c := *e
	c.Err = err
	return &c
}

// As finds the first *Error in the chain of err; nil where there is none.
func As(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return nil
}

// ClassOf returns the class of the first *Error in the chain, Accepted for
// nil, and Internal for an error that no room has classified.
func ClassOf(err error) Class {
	if err == nil {
		return Accepted
	}
	if e := As(err); e != nil {
		return e.Class
	}
	return Internal
}
