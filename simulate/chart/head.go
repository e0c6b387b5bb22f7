package chart

import (
	"fmt"
	"slices"
	"strings"

	"example.com/awsretry/simulate/scenario"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A head is the text above a picture: the scenario and the legend.
type head struct {
	title, text draw.TextStyle
	legend      legend
	titles      []string // lines
	texts       []string
}

// The heights of a head, in sizes of the text.
const (
	headRow = 1.45 // of a line
	headGap = 0.7  // above the legend and below it

	mostHeadLines = 4 // of the events
)

func newHead(s scenario.Scenario, width vg.Length) head {
	h := head{title: textStyle(inkText, 13, true), text: textStyle(inkText, 9, false)}
	h.legend = newLegend(h.text, len(s.Events) > 0, joins(s))
	what := s.Summary()
	h.titles = wrapped(h.title, what.Title, width)
	h.texts = wrapped(h.text, what.Size, width)
	h.texts = slices.Concat(h.texts, eventLines(h.text, what.Events, width))
	return h
}

// eventLines returns the lines for the events, or for the first ones and the number
// of the others.
func eventLines(style draw.TextStyle, events []string, width vg.Length) (lines []string) {
	for left := range len(events) + 1 {
		text := strings.Join(events[:len(events)-left], "; ")
		if left > 0 {
			text += fmt.Sprintf("; and %d more", left)
		}
		if lines = wrapped(style, text, width); len(lines) <= mostHeadLines {
			break
		}
	}
	return lines[:min(len(lines), mostHeadLines)]
}

func (h head) height(width vg.Length) vg.Length {
	return vg.Length(len(h.titles))*headRow*h.title.Font.Size +
		(vg.Length(len(h.texts))*headRow+2*headGap)*h.text.Font.Size + h.legend.height(width)
}

// draw draws the head along the upper edge of c.
func (h head) draw(c draw.Canvas) {
	y := c.Max.Y
	write := func(style draw.TextStyle, lines []string) {
		for _, line := range lines {
			c.FillText(style, vg.Point{X: c.Min.X, Y: y - style.Font.Size}, line)
			y -= headRow * style.Font.Size
		}
	}
	write(h.title, h.titles)
	write(h.text, h.texts)
	c.Max.Y = y - headGap*h.text.Font.Size
	h.legend.draw(c)
}
