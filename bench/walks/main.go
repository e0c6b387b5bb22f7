// Command walks counts the functions, files and packages of the library through
// which a call runs, by coverage, for four kinds of call. The first call of a
// Transport also makes its configuration and a partition.
//
//	go run ./walks
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"strings"
	"text/tabwriter"

	"example.com/awsretry"
	"example.com/awsretry/bench/internal/output"
)

func main() {
	var err error
	if dir := os.Getenv("GOCOVERDIR"); dir != "" {
		err = walkAll(dir)
	} else {
		err = printTable(os.Stdout)
	}
	if err != nil {
		output.Exit(1, err)
	}
}

// printTable runs this program with coverage, and prints what it has run through.
func printTable(w io.Writer) error {
	dir, err := os.MkdirTemp("", "walks")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	root := reflect.TypeFor[awsretry.Transport]().PkgPath()
	packages := strings.Join([]string{root, root + "/internal/...", root + "/fleet", root + "/fleet/internal/...",
		"./walks"}, ",") // without its main package, no program has coverage
	covered := exec.Command("go", "run", "-cover", "-covermode=atomic", "-coverpkg="+packages, "./walks")
	covered.Env, covered.Stderr = append(os.Environ(), "GOCOVERDIR="+dir), os.Stderr
	if err := covered.Run(); err != nil {
		return fmt.Errorf("walks: with coverage: %w", err)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "functions / files / packages\t%s call\t%s call\n", calls[0], calls[1])
	for i, walk := range walks {
		fmt.Fprint(table, walk.name)
		for _, call := range calls {
			f, err := count(folder(dir, i, call))
			if err != nil {
				return err
			}
			fmt.Fprintf(table, "\t%v", f)
		}
		fmt.Fprintln(table)
	}
	return table.Flush()
}

// A figure is what a call ran through.
type figure struct{ functions, files, packages int }

func (f figure) String() string { return fmt.Sprintf("%d / %d / %d", f.functions, f.files, f.packages) }

// count returns what the coverage in a folder shows. A function literal is part of
// the function that has it.
func count(dir string) (f figure, err error) {
	profile := filepath.Join(dir, "profile")
	if out, err := exec.Command("go", "tool", "covdata", "textfmt", "-i="+dir, "-o="+profile).CombinedOutput(); err != nil {
		return f, fmt.Errorf("walks: %w: %s", err, out)
	}
	out, err := exec.Command("go", "tool", "cover", "-func="+profile).Output()
	if err != nil {
		return f, fmt.Errorf("walks: %w", err)
	}
	files, packages := map[string]bool{}, map[string]bool{}
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		place, rest, _ := strings.Cut(lines.Text(), ":")
		if place == "total" || strings.HasSuffix(rest, "\t0.0%") || strings.Contains(place, "/bench/walks/") {
			continue
		}
		f.functions++
		files[place], packages[path.Dir(place)] = true, true
	}
	f.files, f.packages = len(files), len(packages)
	return f, nil
}
