package client

import "syscall"

// The numbers of Winsock. The names of Unix exist on this system too, but the
// network never returns them.
var (
	errnoRefused     = []syscall.Errno{10061}                               // WSAECONNREFUSED
	errnoReset       = []syscall.Errno{syscall.WSAECONNRESET, 10053, 10058} // and WSAECONNABORTED, WSAESHUTDOWN
	errnoUnreachable = []syscall.Errno{10050, 10051, 10064, 10065}          // WSAENETDOWN, WSAENETUNREACH, WSAEHOSTDOWN, WSAEHOSTUNREACH
)
