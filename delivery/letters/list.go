package letters

import (
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
)

// List yields the heads of the dead letters, the oldest first. For a file that
// is not a letter it yields an error with the file's path, and a Letter that
// has only Name and Size. If the folder cannot be read, List yields one error
// and the zero Letter. It reads only the beginning of each file, and locks
// none. A folder that does not exist has no letters: the first Put creates it.
func (d *Dir) List() iter.Seq2[Letter, error] {
	return func(yield func(Letter, error) bool) {
		dir, err := d.clean()
		if err != nil {
			yield(Letter{}, err)
			return
		}
		entries, err := readFolder(dir)
		if err != nil {
			yield(Letter{}, fmt.Errorf("letters: List: %w", err))
			return
		}
		for _, entry := range entries {
			if isTemp(entry.Name()) {
				continue
			}
			letter, err := listed(dir, entry)
			if errors.Is(err, fs.ErrNotExist) {
				continue // delivered in the meantime
			}
			if err != nil {
				err = fmt.Errorf("letters: List: %s: %w", filepath.Join(dir, entry.Name()), err)
			}
			if !yield(letter, err) {
				return
			}
		}
	}
}

// readFolder returns the entries of dir, none if it does not exist.
func readFolder(dir string) ([]fs.DirEntry, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, err
}

func listed(dir string, entry fs.DirEntry) (Letter, error) {
	letter := Letter{Name: entry.Name()}
	f, size, err := openLetter(dir, entry, os.O_RDONLY)
	if err != nil {
		return letter, err
	}
	defer f.Close()
	letter.Size = size
	head, err := newLineReader(f).head()
	if err != nil {
		return letter, err
	}
	head.Name, head.Size = letter.Name, size
	return head.Letter, nil
}

func isTemp(name string) bool { return strings.HasSuffix(name, letterSuffix+tempSuffix) }

func openLetter(dir string, entry fs.DirEntry, flag int) (*os.File, int64, error) {
	if !entry.Type().IsRegular() || !strings.HasSuffix(entry.Name(), letterSuffix) {
		return nil, 0, errors.New("not a dead letter")
	}
	f, err := os.OpenFile(filepath.Join(dir, entry.Name()), flag, 0)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}
