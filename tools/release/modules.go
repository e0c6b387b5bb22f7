package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	gopath "path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"
)

// private are the folders of the modules that work on the repository only. They
// are not published, and keep their replace directives.
var private = []string{"bench", "interop", "interop/clients", "interop/rows", "retryablehttp/users", "tools"}

// A mod is a module of the tree.
type mod struct {
	dir      string // in the tree, with slashes; "." for the root
	path     string
	file     *modfile.File
	requires []*mod   // modules of the tree
	sums     []string // its lines in a go.sum; nil until it is published
}

// editModules rewrites every go.mod of the tree. It returns the modules that are
// published.
func editModules(tree string, dirs []string, root, version string) ([]*mod, error) {
	public := make(map[string]*mod)
	var mods []*mod
	for _, dir := range dirs {
		m := &mod{dir: dir, path: gopath.Join(root, dir)}
		name := filepath.Join(tree, dir, "go.mod")
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if m.file, err = modfile.Parse(name, text, nil); err != nil {
			return nil, err
		}
		if m.file.Module.Mod.Path != m.path {
			return nil, fmt.Errorf("%s: the module is %s, not %s", name, m.file.Module.Mod.Path, m.path)
		}
		mods = append(mods, m)
		if !slices.Contains(private, dir) {
			public[m.path] = m
		}
	}
	var released []*mod
	for _, m := range mods {
		if err := m.edit(root, version, public); err != nil {
			return nil, fmt.Errorf("%s/go.mod: %w", m.dir, err)
		}
		if public[m.path] != nil {
			released = append(released, m)
		}
		if err := os.WriteFile(filepath.Join(tree, m.dir, "go.mod"), modfile.Format(m.file.Syntax), 0o666); err != nil {
			return nil, err
		}
	}
	return released, nil
}

// edit requires the modules of the tree at version. If m is public, it drops
// their replace directives and notes what m requires.
func (m *mod) edit(root, version string, public map[string]*mod) error {
	own := func(path string) bool { return path == root || strings.HasPrefix(path, root+"/") }
	for _, r := range slices.Clone(m.file.Require) {
		if !own(r.Mod.Path) {
			continue
		}
		if err := m.file.AddRequire(r.Mod.Path, version); err != nil {
			return err
		}
		if public[m.path] == nil {
			continue
		}
		required := public[r.Mod.Path]
		if required == nil {
			return fmt.Errorf("requires %s, which is not published", r.Mod.Path)
		}
		m.requires = append(m.requires, required)
	}
	if public[m.path] != nil {
		for _, r := range slices.Clone(m.file.Replace) {
			if !own(r.Old.Path) {
				return fmt.Errorf("replaces %s; a published module must replace nothing", r.Old.Path)
			}
			if err := m.file.DropReplace(r.Old.Path, r.Old.Version); err != nil {
				return err
			}
		}
	}
	m.file.Cleanup()
	m.file.SortBlocks()
	return nil
}

// publish writes the modules to the proxy, each after those that it requires, and
// returns them in that order.
func publish(mods []*mod, tree, proxy, version string) (order []*mod, err error) {
	for len(order) < len(mods) {
		next := slices.IndexFunc(mods, func(m *mod) bool {
			return m.sums == nil && !slices.ContainsFunc(m.requires, func(r *mod) bool { return r.sums == nil })
		})
		if next < 0 {
			return nil, errors.New("modules require each other in a circle, so none of them can be hashed first")
		}
		if err := mods[next].publish(tree, proxy, version); err != nil {
			return nil, fmt.Errorf("%s: %w", mods[next].path, err)
		}
		order = append(order, mods[next])
	}
	return order, nil
}

// publish completes m's go.sum, and writes its files of the proxy and its sums.
// What it requires must be published.
func (m *mod) publish(tree, proxy, version string) error {
	dir := filepath.Join(tree, m.dir)
	// Go adds the LICENSE of a repository to the module of each folder without
	// one. With a copy, the sums do not depend on that.
	license, err := os.ReadFile(filepath.Join(tree, "LICENSE"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "LICENSE"), license, 0o666)
	}
	if err != nil {
		return err
	}
	if err := m.addSums(filepath.Join(dir, "go.sum")); err != nil {
		return err
	}
	v := module.Version{Path: m.path, Version: version}
	escaped, err := module.EscapePath(m.path)
	if err != nil {
		return err
	}
	to := filepath.Join(proxy, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(to, 0o777); err != nil {
		return err
	}
	name := filepath.Join(to, version)
	archive, err := os.Create(name + ".zip")
	if err != nil {
		return err
	}
	if err := errors.Join(zip.CreateFromDir(archive, v, dir), archive.Close()); err != nil {
		return err
	}
	if err := errors.Join(
		os.WriteFile(name+".mod", modfile.Format(m.file.Syntax), 0o666),
		os.WriteFile(name+".info", fmt.Appendf(nil, "{\"Version\":%q}\n", version), 0o666),
		os.WriteFile(filepath.Join(to, "list"), []byte(version+"\n"), 0o666),
	); err != nil {
		return err
	}
	return m.hash(v, name)
}

// addSums adds the sums of all modules of the tree that m needs to its go.sum.
func (m *mod) addSums(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	var needs func(*mod)
	needs = func(m *mod) {
		for _, r := range m.requires {
			lines = append(lines, r.sums...)
			needs(r)
		}
	}
	needs(m)
	slices.Sort(lines)
	return os.WriteFile(name, []byte(strings.Join(slices.Compact(lines), "\n")+"\n"), 0o666)
}

// hash sets the lines that the go.sum of a module that requires m has.
func (m *mod) hash(v module.Version, name string) error {
	all, err := dirhash.HashZip(name+".zip", dirhash.Hash1)
	if err != nil {
		return err
	}
	gomod, err := dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) { return os.Open(name + ".mod") })
	m.sums = []string{v.Path + " " + v.Version + " " + all, v.Path + " " + v.Version + "/go.mod " + gomod}
	return err
}
