package files

import "os"

// A pendingFile replaces a file on Windows, where a rename is not atomic.
// Package renameio does not support that.
type pendingFile struct {
	*os.File
	path string
}

func newPending(path, tempDir string) (pending, error) {
	f, err := os.CreateTemp(tempDir, ".awsretry-*")
	if err != nil {
		return nil, err
	}
	return &pendingFile{f, path}, nil
}

func (p *pendingFile) CloseAtomicallyReplace() error {
	if err := p.Close(); err != nil {
		return err
	}
	return os.Rename(p.Name(), p.path)
}

func (p *pendingFile) Cleanup() error {
	p.Close()
	return os.Remove(p.Name())
}
