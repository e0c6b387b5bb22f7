package main

import (
	"bytes"
	"crypto/rand"
	"io/fs"
	"os"
	"os/exec"
	gopath "path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

const (
	repository = "../.."
	newHost    = "release.example"
	newVersion = "v0.4.0-rc.1"
)

// newPath differs in each run, because its modules are unpacked in the machine's
// module cache. Its last element is not the package's name, and it has a capital
// letter, which a proxy escapes.
var newPath = newHost + "/Who-" + strings.ToLower(rand.Text()) + "/go-retries"

// nested are the modules that testdata/user needs, except for the root.
var nested = []string{"awssdk", "fleet", "otelretry", "deliveryqueue", "retryablehttp"}

// TestFreshUser takes the modules of a release as a module of a user does: from
// the proxy that is written, without a replace directive. It runs the tests of
// such a module, and installs the commands.
func TestFreshUser(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles all published modules")
	}
	dir := t.TempDir()
	if _, err := release(repository, dir, newPath, newVersion); err != nil {
		t.Fatal(err)
	}
	oldPath, err := modulePath(repository)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("names", func(t *testing.T) { checkNames(t, filepath.Join(dir, "tree"), oldPath) })
	t.Run("private", func(t *testing.T) {
		for _, name := range private {
			// Resolves every import of the module's packages and tests.
			run(t, filepath.Join(dir, "tree", name), nil, "go", "list", "-deps", "-test", "./...")
		}
	})

	// The other modules come from the cache, where their sums were checked when
	// they were downloaded. No other proxy is asked, because go get looks for
	// a module at each prefix of a path too, and would wait for the network. With
	// the module cache and the flags of all other builds, what the others have
	// compiled is not compiled again.
	cache := strings.TrimSpace(run(t, ".", nil, "go", "env", "GOMODCACHE"))
	removeFromCache(t, cache)
	fillCache(t, filepath.Join(dir, "replaced"), oldPath)
	user, bin := filepath.Join(dir, "user"), filepath.Join(dir, "bin")
	env := []string{
		"GOPROXY=" + fileURL(filepath.Join(dir, "proxy")) + "," + fileURL(filepath.Join(cache, "cache", "download")),
		"GOSUMDB=off", "GOWORK=off", "GOBIN=" + bin,
		"GOFLAGS=-mod=mod -modcacherw -buildvcs=false -ldflags=-w",
	}
	copyUser(t, user, newRenamer(oldPath, newPath))
	run(t, user, env, "go", "mod", "init", "user.example/program")
	get := []string{"get", newPath + "@" + newVersion}
	for _, name := range nested {
		get = append(get, newPath+"/"+name+"@"+newVersion)
	}
	run(t, user, env, "go", get...)
	if text, err := os.ReadFile(filepath.Join(user, "go.mod")); err != nil || bytes.Contains(text, []byte("replace")) {
		t.Errorf("%v, or a replace directive in\n%s", err, text)
	}
	run(t, user, env, "go", "test", ".")
	for _, command := range []string{"awsretry", "awsretry-deliver"} {
		run(t, user, env, "go", "install", newPath+"/cmd/"+command+"@"+newVersion)
		if got := run(t, user, env, filepath.Join(bin, command), "--version"); !strings.Contains(got, newVersion) {
			t.Errorf("%s --version printed %q, want %s in it", command, got, newVersion)
		}
	}
}

// removeFromCache removes the modules of this test from the module cache when it
// ends, and now those of older runs that were killed.
func removeFromCache(t *testing.T, cache string) {
	t.Helper()
	roots := []string{filepath.Join(cache, newHost), filepath.Join(cache, "cache", "download", newHost)}
	own, err := module.EscapePath(newPath)
	if err != nil {
		t.Fatal(err)
	}
	own = gopath.Base(gopath.Dir(own))
	remove := func(unused func(fs.DirEntry) bool) {
		for _, root := range roots {
			entries, _ := os.ReadDir(root)
			for _, entry := range entries {
				if !unused(entry) {
					continue
				}
				if err := os.RemoveAll(filepath.Join(root, entry.Name())); err != nil {
					t.Error(err)
				}
			}
			_ = os.Remove(root) // fails if another run uses it
		}
	}
	remove(func(entry fs.DirEntry) bool {
		info, err := entry.Info()
		return err == nil && time.Since(info.ModTime()) > time.Hour
	})
	t.Cleanup(func() { remove(func(entry fs.DirEntry) bool { return entry.Name() == own }) })
}

// fillCache downloads what testdata/user and the commands need of other modules,
// unless it is in the cache.
func fillCache(t *testing.T, dir, oldPath string) {
	t.Helper()
	copyUser(t, dir, newRenamer(oldPath, oldPath))
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	run(t, dir, nil, "go", "mod", "init", "user.example/program")
	for _, name := range append([]string{""}, nested...) {
		path := gopath.Join(oldPath, name)
		run(t, dir, nil, "go", "mod", "edit", "-require="+path+"@v0.0.0", "-replace="+path+"="+filepath.Join(root, name))
	}
	env := []string{"GOFLAGS=-mod=mod", "GOWORK=off"}
	run(t, dir, env, "go", "list", "-deps", "-test", ".")
	run(t, dir, env, "go", "mod", "graph")
	for _, command := range []string{"awsretry", "awsretry-deliver"} {
		run(t, filepath.Join(root, "cmd", command), nil, "go", "list", "-deps", "./...")
	}
}

// copyUser copies testdata/user.
func copyUser(t *testing.T, dir string, rename renamer) {
	t.Helper()
	const name = "user_test.go"
	if err := copyFile(filepath.Join("testdata/user", name), filepath.Join(dir, name), rename, newVersion); err != nil {
		t.Fatal(err)
	}
}

// checkNames finds every file of the tree that names the old path, and every
// go.mod of a published module with a replace directive.
func checkNames(t *testing.T, tree, oldPath string) {
	modules := 0
	err := filepath.WalkDir(tree, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if find := newRenamer(oldPath, newPath).find; find.Match(text) {
			t.Errorf("%s names %s", name, find.Find(text))
		}
		if bytes.Contains(text, []byte(unpublishedMark)) && filepath.Ext(name) == ".md" {
			t.Errorf("%s has the text for before a release", name)
		}
		if entry.Name() != "go.mod" {
			return nil
		}
		file, err := modfile.Parse(name, text, nil)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(tree, filepath.Dir(name))
		if err != nil {
			return err
		}
		if !slices.Contains(private, filepath.ToSlash(dir)) {
			modules++
			if len(file.Replace) > 0 {
				t.Errorf("%s has %d replace directives", name, len(file.Replace))
			}
		}
		return nil
	})
	if err != nil || modules < 10 {
		t.Errorf("%d published modules, %v", modules, err)
	}
}

// TestAPIDiff changes a function after a release: make apidiff, which make
// release runs, reports it.
func TestAPIDiff(t *testing.T) {
	makefile, err := filepath.Abs(filepath.Join(repository, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module release.example/changed\n\ngo 1.25\n")
	write("go.sum", "")
	write("changed.go", "package changed\n\nfunc F(n int) {}\n")
	git := []string{"-c", "user.name=test", "-c", "user.email=test@release.example"}
	run(t, dir, nil, "git", "init", "-q")
	run(t, dir, nil, "git", "add", ".")
	run(t, dir, nil, "git", append(git, "commit", "-qm", "The release")...)
	run(t, dir, nil, "git", "tag", "v0.4.0")
	apidiff := func() string {
		t.Helper()
		return run(t, dir, []string{"GOWORK=off", "MAKEFLAGS=", "MAKELEVEL=0"}, "make", "-s", "-f", makefile, "apidiff", "API_MODULES=")
	}
	if got, want := apidiff(), "== apidiff .\n"; got != want {
		t.Errorf("without a change, it printed %q, want %q", got, want)
	}
	write("changed.go", "package changed\n\nfunc F(n int64) {}\n")
	if got, want := apidiff(), "== apidiff .\nIncompatible changes:\n- F: changed from func(int) to func(int64)\n"; got != want {
		t.Errorf("it printed %q, want %q", got, want)
	}
}

func TestCheck(t *testing.T) {
	for _, test := range []struct{ path, version, want string }{
		{"github.com/who/awsretry", "v0.4.0", ""},
		{"git.example/retries", "v1.0.0-rc.1", ""},
		{"", "v0.4.0", `MODULE is "";`},
		{"awsretry", "v0.4.0", `MODULE is "awsretry";`},
		{"https://github.com/who/awsretry", "v0.4.0", `MODULE is "https://github.com/who/awsretry";`},
		{"github.com/who/awsretry/", "v0.4.0", `MODULE is "github.com/who/awsretry/";`},
		{"github.com/who/awsretry/v2", "v2.0.0", "it must not end in /v2"},
		{"gopkg.in/retry.v1", "v1.0.0", "it must not end in .v1"},
		{"github.com/who/awsretry", "", `VERSION is "";`},
		{"github.com/who/awsretry", "0.4.0", `VERSION is "0.4.0";`},
		{"github.com/who/awsretry", "v0.4", `VERSION is "v0.4";`},
		{"github.com/who/awsretry", "v0.4.0+build", `VERSION is "v0.4.0+build";`},
		{"github.com/who/awsretry", "v0.0.0-20261127150000-0123456789ab", "it must be a complete semantic version"},
		{"github.com/who/awsretry", "v2.0.0", "Go wants /v2"},
	} {
		err := check(test.path, test.version)
		switch {
		case test.want == "" && err != nil:
			t.Errorf("%s %s: %v", test.path, test.version, err)
		case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
			t.Errorf("%s %s: %v, want %s in the error", test.path, test.version, err, test.want)
		}
	}
}

func TestRewrite(t *testing.T) {
	rename := newRenamer("old.example/lib", "new.example/x")
	for _, test := range []struct{ name, text, want string }{
		{"a.go", "package a\n\nimport (\n\t\"o.example/b\"\n\t\"old.example/lib\"\n)\n\nconst s = \"old.example/lib/fleet\"\n",
			"package a\n\nimport (\n\t\"new.example/x\"\n\t\"o.example/b\"\n)\n\nconst s = \"new.example/x/fleet\"\n"},
		{"a.go", "package a\n\nconst s = `old\\.example/lib(\\S*)`\n", "package a\n\nconst s = `new\\.example/x(\\S*)`\n"},
		{"a.json", `{"old.example/lib.Transport": 1}`, `{"new.example/x.Transport": 1}`},
		{"a.md", "a\n<!-- unpublished -->\nb\n<!-- published\ngo get old.example/lib@VERSION\n-->\nc VERSION\n",
			"a\ngo get new.example/x@v1.2.3\nc VERSION\n"},
	} {
		got, err := rewrite(test.name, []byte(test.text), rename, "v1.2.3")
		if err != nil || string(got) != test.want {
			t.Errorf("%s: got %q, %v, want %q", test.name, got, err, test.want)
		}
	}
	if _, err := rewrite("a.md", []byte("<!-- unpublished -->\nb\n"), rename, "v1.2.3"); err == nil {
		t.Error("a page whose text for after the release is missing is no error")
	}
}

func fileURL(path string) string { return "file://" + filepath.ToSlash(path) }

func run(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	command.Dir = dir
	command.Env = append(os.Environ(), env...)
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out)
}
