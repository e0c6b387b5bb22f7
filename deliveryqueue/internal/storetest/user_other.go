//go:build !unix

package storetest

import "os/exec"

type user struct{}

func unprivileged() (user, error) { return user{}, ErrMissing }

func (user) own(string) error { return nil }

func (user) run(*exec.Cmd, string) {}
