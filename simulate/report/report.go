// Package report writes the result of a simulation as one HTML file for a browser,
// which needs no network: curves to zoom into, the table and the scenario.
package report

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"

	"example.com/awsretry/simulate"
	"example.com/awsretry/simulate/scenario"
)

// The charts are drawn with uPlot, version 1.6.32, whose license is next to it.
//
//go:embed report.html report.css report.js uplot
var files embed.FS

// An Origin describes how a result was made.
type Origin struct {
	Command string // as it is typed in a shell
	Version string // of awsretry
}

// Write writes the report.
func Write(w io.Writer, r *simulate.Result, o Origin) error {
	file, err := scenario.Marshal(r.Scenario)
	if err != nil {
		return err
	}
	what := r.Scenario.Summary()
	p := page{
		Origin: o, Name: orUnnamed(what.Title), Summary: what, Seed: r.Scenario.Seed, Scenario: string(file),
		Rounding: r.Rounding(), Warnings: r.Warnings(), Data: newData(r), License: text("uplot/LICENSE"),
		Styles:  []template.CSS{template.CSS(text("uplot/uPlot.min.css")), template.CSS(text("report.css"))},
		Scripts: []template.JS{template.JS(text("uplot/uPlot.iife.min.js")), template.JS(text("report.js"))},
	}
	for _, c := range r.Columns() {
		p.Heads = append(p.Heads, c.Name)
	}
	for _, outcome := range r.Outcomes {
		var row []string
		for _, c := range r.Columns() {
			row = append(row, c.Cell(outcome))
		}
		p.Rows = append(p.Rows, row)
	}
	p.Policy = policy(p.Styles, p.Scripts)
	html, err := template.New("report.html").ParseFS(files, "report.html")
	if err != nil {
		return err
	}
	var all bytes.Buffer
	if err := html.Execute(&all, p); err != nil {
		return err
	}
	_, err = all.WriteTo(w)
	return err
}

// A page is what report.html shows.
type page struct {
	Origin
	Policy   template.HTMLAttr
	Styles   []template.CSS
	Scripts  []template.JS
	Name     string
	Summary  scenario.Summary
	Rounding string
	Warnings []string
	Heads    []string
	Rows     [][]string
	Data     data
	Scenario string // YAML
	Seed     uint64
	License  string // of uPlot
}

// policy returns the attribute with a Content-Security-Policy that allows only
// these styles and scripts. A browser then fetches nothing.
func policy(styles []template.CSS, scripts []template.JS) template.HTMLAttr {
	var style, script strings.Builder
	for _, s := range styles {
		style.WriteString(hash(string(s)))
	}
	for _, s := range scripts {
		script.WriteString(hash(string(s)))
	}
	return template.HTMLAttr(fmt.Sprintf(
		`content="default-src 'none'; style-src%s; script-src%s; base-uri 'none'; form-action 'none'"`,
		&style, &script))
}

// hash returns a source of a Content-Security-Policy for an element with this
// text, after a space.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

func orUnnamed(title string) string {
	if title == "" {
		return "A simulation"
	}
	return title
}

// text returns an embedded file.
func text(name string) string {
	b, err := files.ReadFile(name)
	if err != nil {
		panic(err) // the file is not in the binary
	}
	return string(b)
}
