//go:build unix

package deliveryqueue

import (
	"os"
	"os/exec"
	osuser "os/user"
	"strconv"
	"syscall"
)

// A serverUser is whom the server runs as: it refuses to run as root.
type serverUser struct{ credential *syscall.Credential } // nil: this process's user

func unprivileged() (serverUser, error) {
	if os.Getuid() != 0 {
		return serverUser{}, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := osuser.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(u.Uid, 10, 32)
		if err != nil {
			continue
		}
		gid, err := strconv.ParseUint(u.Gid, 10, 32)
		if err != nil {
			continue
		}
		return serverUser{&syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
	}
	return serverUser{}, errNoPostgres
}

func (u serverUser) own(dir string) error {
	if u.credential == nil {
		return nil
	}
	return os.Chown(dir, int(u.credential.Uid), int(u.credential.Gid))
}

func (u serverUser) run(cmd *exec.Cmd, dir string) {
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: u.credential}
}
