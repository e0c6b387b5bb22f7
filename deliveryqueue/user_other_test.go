//go:build !unix

package deliveryqueue

import "os/exec"

type serverUser struct{}

func unprivileged() (serverUser, error) { return serverUser{}, errNoPostgres }

func (serverUser) own(string) error { return nil }

func (serverUser) run(*exec.Cmd, string) {}
