package main

import (
	"container/heap"
	"time"
)

// A queue runs events in the order of their times, and those of the same time
// in the order in which they were added.
type queue struct {
	now    time.Duration
	events events
	added  int
}

// after adds an event that is due d from now.
func (q *queue) after(d time.Duration, do func()) {
	q.added++
	heap.Push(&q.events, event{at: q.now + d, number: q.added, do: do})
}

// until runs what is due up to a time.
func (q *queue) until(end time.Duration) {
	for len(q.events) > 0 && q.events[0].at <= end {
		e := heap.Pop(&q.events).(event)
		q.now = e.at
		e.do()
	}
	q.now = end
}

type event struct {
	at     time.Duration
	number int
	do     func()
}

// events is a heap for package container/heap.
type events []event

func (e events) Len() int { return len(e) }

func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].number < e[j].number
}

func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }

func (e *events) Push(x any) { *e = append(*e, x.(event)) }

func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = event{}
	*e = (*e)[:last]
	return x
}
