package identity

import (
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/windows"
)

// rights makes a file anew with the access control list of that text form, and
// nothing of its folder's.
func rights(t *testing.T, path, sddl string) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	sd, err := windows.SecurityDescriptorFromString(sddl)
	if err != nil {
		t.Fatal(err)
	}
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		t.Fatal(err)
	}
	sa := windows.SecurityAttributes{SecurityDescriptor: sd}
	sa.Length = uint32(unsafe.Sizeof(sa))
	h, err := windows.CreateFile(name, windows.GENERIC_WRITE, 0, &sa, windows.CREATE_NEW, windows.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		t.Fatal(err)
	}
	f := os.NewFile(uintptr(h), path)
	if _, err := f.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// mine is the entry that lets the user of this process do everything.
func mine(t *testing.T) string {
	t.Helper()
	user, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		t.Fatal(err)
	}
	return "(A;;FA;;;" + user.User.Sid.String() + ")"
}

// keepToOwner takes a file away from the others.
func keepToOwner(t *testing.T, path string) {
	t.Helper()
	rights(t, path, "D:P"+mine(t))
}

func TestTokenFileIsNotForEveryUser(t *testing.T) {
	me := mine(t)
	for name, tt := range map[string]struct{ sddl, why string }{
		"mine alone":                          {"D:P" + me, ""},
		"mine, the system's and the admins'":  {"D:P" + me + "(A;;FA;;;SY)(A;;FA;;;BA)", ""},
		"whoever owns it":                     {"D:P(A;;FA;;;OW)", ""},
		"everyone reads":                      {"D:P" + me + "(A;;FR;;;WD)", "its access control list lets everyone at it"},
		"users of the machine write":          {"D:P" + me + "(A;;FW;;;BU)", "its access control list lets every user of this machine at it"},
		"whoever is logged in reads":          {"D:P" + me + "(A;;0x1;;;AU)", "its access control list lets every user who is logged in at it"},
		"guests may give rights":              {"D:P" + me + "(A;;WD;;;BG)", "its access control list lets guests at it"},
		"everyone is refused":                 {"D:P(D;;FA;;;WD)" + me, ""},
		"everyone may only look at its times": {"D:P" + me + "(A;;0x80;;;WD)", ""},
		"what others inherit is not its own":  {"D:P" + me + "(A;OIIO;FA;;;WD)", ""},
		"nobody":                              {"D:P", ""},
	} {
		t.Run(name, func(t *testing.T) {
			sd, err := windows.SecurityDescriptorFromString(tt.sddl)
			if err != nil {
				t.Fatal(err)
			}
			list, _, err := sd.DACL()
			if err != nil {
				t.Fatal(err)
			}
			if got := letsOthers(list); got != tt.why {
				t.Errorf("%q, want %q", got, tt.why)
			}
		})
	}
	if why := letsOthers(nil); why == "" {
		t.Error("a file without a list is let pass")
	}
	path := tokenFile(t, "token-newline.txt")
	if _, err := (TokenSource{File: path}).Load(); err != nil {
		t.Error(err)
	}
	rights(t, path, "D:P"+me+"(A;;FR;;;WD)")
	_, err := TokenSource{File: path}.Load()
	wantRefused(t, err, "token.file_mode", path, "its access control list lets everyone at it", []byte(secret))
}
