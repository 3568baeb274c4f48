// Package config keeps the contexts, which are daemons with a name, and decides
// which setting of a run comes from where: flag, environment or context.
//
// Invariants:
//
//   - A file that cannot be understood is never written, and a change that
//     would say anything but what was asked for is not made. Comments, order and
//     keys of newer versions stay as they were.
//   - A change is made under a lock, to what the file holds at that moment, and
//     the new file is complete on the disk before it takes the name.
//   - What a context says of the caller and of whom to trust (token file, CA
//     file, principal, tenant) is used for the daemon of that context and for no
//     other, whatever names the daemon.
//   - No token has a place in the file: it names the file that holds one.
package config
