// Package render shows a run to a person or to a script: as text, as one JSON
// document, or as JSON Lines. It is told what happened and decides nothing
// about the action.
//
// Invariants kept here:
//
//   - stdout carries only the answer of the assistant (text) or only records
//     (JSON, JSON Lines). Everything else goes to stderr.
//   - In text, nothing reaches either stream that is not a [sanitize.Text], so
//     no control character of a provider does. What is added to it is a line
//     feed, the carriage return and blanks of the status line, the colour of
//     the palette, and two movements of the cursor, each only where it may
//     stand: the last where there is colour and both streams are known to be
//     the same terminal.
//   - In JSON, strings and numbers come out as they came in; whatever a
//     terminal could act on is written as a \u escape.
//   - Every delta and every record is one Write, made at once. A method that
//     returns nil has handed all of it to the operating system, but for what
//     cannot be judged yet: half a character, and line ends that may turn out
//     to be the last ones.
//   - After a failed or short write stdout is never written again.
//   - The status line is never on the screen while something else is written,
//     and it is never drawn into a line that holds text. Whatever must fit in a
//     line is measured in cells, at the most that any terminal makes of it.
//   - A line about something that happened has its time, unless a clock runs
//     beside it in the status line.
package render
