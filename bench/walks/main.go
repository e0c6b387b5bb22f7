// Command walks counts the functions, files and packages of the library through
// which a call runs, by coverage, for four kinds of call. The first call of a
// Transport also makes its configuration and a partition.
//
//	go run ./walks [-v]
package main

import (
	"flag"
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
	names := flag.Bool("v", false, "name the functions of each later call")
	flag.Parse()
	var err error
	if dir := os.Getenv("GOCOVERDIR"); dir != "" {
		err = walkAll(dir)
	} else {
		err = printTable(os.Stdout, *names)
	}
	if err != nil {
		output.Exit(1, err)
	}
}

// printTable runs this program with coverage, and prints what it has run through, with
// the names of the functions if names is set.
func printTable(w io.Writer, names bool) error {
	dir, err := os.MkdirTemp("", "walks")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	root := reflect.TypeFor[awsretry.Transport]().PkgPath()
	packages := strings.Join([]string{root, root + "/internal/...", root + "/fleet", root + "/fleet/internal/...",
		"./walks"}, ",") // without its main package, no program has coverage
	run := exec.Command("go", "run", "-cover", "-covermode=atomic", "-coverpkg="+packages, "./walks")
	run.Env, run.Stderr = append(os.Environ(), "GOCOVERDIR="+dir), os.Stderr
	if err := run.Run(); err != nil {
		return fmt.Errorf("walks: with coverage: %w", err)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "functions / files / packages\t%s call\t%s call\n", calls[0], calls[1])
	var lists strings.Builder
	for i, walk := range walks {
		fmt.Fprint(table, walk.name)
		for _, call := range calls {
			functions, err := covered(folder(dir, i, call))
			if err != nil {
				return err
			}
			fmt.Fprintf(table, "\t%v", count(functions))
			if names && call == calls[len(calls)-1] {
				fmt.Fprintf(&lists, "\n%s\n%s", walk.name, strings.Join(functions, ""))
			}
		}
		fmt.Fprintln(table)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err = io.WriteString(w, lists.String())
	return err
}

// covered returns a line for each function that the coverage in a folder shows. A
// function literal is part of the function that has it.
func covered(dir string) (functions []string, err error) {
	profile := filepath.Join(dir, "profile")
	if out, err := exec.Command("go", "tool", "covdata", "textfmt", "-i="+dir, "-o="+profile).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("walks: %w: %s", err, out)
	}
	out, err := exec.Command("go", "tool", "cover", "-func="+profile).Output()
	if err != nil {
		return nil, fmt.Errorf("walks: %w", err)
	}
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "total:") || strings.HasSuffix(line, "\t0.0%\n") || strings.Contains(line, "/bench/walks/") {
			continue
		}
		functions = append(functions, line)
	}
	return functions, nil
}

// A figure is what a call ran through.
type figure struct{ functions, files, packages int }

func (f figure) String() string { return fmt.Sprintf("%d / %d / %d", f.functions, f.files, f.packages) }

func count(functions []string) figure {
	files, packages := map[string]bool{}, map[string]bool{}
	for _, f := range functions {
		file, _, _ := strings.Cut(f, ":")
		files[file], packages[path.Dir(file)] = true, true
	}
	return figure{len(functions), len(files), len(packages)}
}
