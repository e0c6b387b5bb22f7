package files

import "os"

// A pendingFile does on Windows, which package renameio leaves out because a
// rename is not atomic there, what can be done.
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
