package identity

import (
	"io/fs"
	"os"
	"unsafe"

	"golang.org/x/sys/windows"
)

// openNoFollow opens a file for reading unless it is a symbolic link or another
// reparse point. The system has no flag for that, so the opened file is
// compared with the one that was looked at.
func openNoFollow(path string) (*os.File, error) {
	before, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	if before.Mode()&(fs.ModeSymlink|fs.ModeIrregular) != 0 {
		return nil, errSymlink
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	after, err := f.Stat()
	if err == nil && !os.SameFile(before, after) {
		err = errSymlink
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// notOwned has nothing to say: what an administrator makes belongs to the group
// of all of them.
func notOwned(fs.FileInfo) string { return "" }

// closeHint is how the owner takes a file away from the others; it takes the
// path. The number stands for whoever owns the file, in every language.
const closeHint = `icacls "%s" /inheritance:r /grant:r *S-1-3-4:F`

// everyone are the groups that users are in without anybody's doing.
var everyone = map[windows.WELL_KNOWN_SID_TYPE]string{
	windows.WinWorldSid:             "everyone",
	windows.WinAuthenticatedUserSid: "every user who is logged in",
	windows.WinBuiltinUsersSid:      "every user of this machine",
	windows.WinBuiltinGuestsSid:     "guests",
	windows.WinAnonymousSid:         "users without a name",
	windows.WinNetworkSid:           "every user from the network",
	windows.WinInteractiveSid:       "every user at this machine",
}

// reads are the rights by which a token could be read, changed, or made
// readable.
const reads windows.ACCESS_MASK = windows.FILE_READ_DATA | windows.FILE_WRITE_DATA | windows.FILE_APPEND_DATA |
	windows.WRITE_DAC | windows.WRITE_OWNER | windows.GENERIC_READ | windows.GENERIC_WRITE | windows.GENERIC_ALL

// tooOpen says in a clause why the rights to an opened file are wrong.
func tooOpen(f *os.File, _ fs.FileInfo) string {
	sd, err := windows.GetSecurityInfo(windows.Handle(f.Fd()), windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return "its access control list cannot be read"
	}
	list, _, err := sd.DACL()
	if err != nil {
		return "it has no access control list, which lets everyone at it"
	}
	return letsOthers(list)
}

// letsOthers says in a clause whom an access control list lets at a token.
func letsOthers(list *windows.ACL) string {
	if list == nil {
		return "it has no access control list, which lets everyone at it"
	}
	for i := range uint32(list.AceCount) {
		var ace *windows.ACCESS_ALLOWED_ACE
		if err := windows.GetAce(list, i, &ace); err != nil {
			return "its access control list cannot be read"
		}
		if ace.Header.AceType != windows.ACCESS_ALLOWED_ACE_TYPE || ace.Header.AceFlags&windows.INHERIT_ONLY_ACE != 0 || ace.Mask&reads == 0 {
			continue
		}
		sid := (*windows.SID)(unsafe.Pointer(&ace.SidStart))
		for group, name := range everyone {
			if sid.IsWellKnown(group) {
				return "its access control list lets " + name + " at it"
			}
		}
	}
	return ""
}
