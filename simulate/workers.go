package simulate

import "sync"

// workers make the calls that arrive. They reuse goroutines, because the stack
// of a new one would have to grow for each call.
type workers struct {
	mu    sync.Mutex
	idle  []chan task // the last one was used last
	calls sync.WaitGroup
	all   sync.WaitGroup
}

// A task is a call that a worker makes.
type task struct {
	fleet  *fleet
	client *client
	call   call
}

// do hands the call to a worker, which makes it now.
func (w *workers) do(t task) {
	w.calls.Add(1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if last := len(w.idle) - 1; last >= 0 {
		w.idle[last] <- t
		w.idle = w.idle[:last]
		return
	}
	tasks := make(chan task, 1)
	tasks <- t
	w.all.Go(func() { w.work(tasks) })
}

func (w *workers) work(tasks chan task) {
	for t := range tasks {
		t.fleet.call(t.client, t.call)
		t.client.put(t.call.owner)
		w.mu.Lock()
		w.idle = append(w.idle, tasks)
		w.mu.Unlock()
		w.calls.Done()
	}
}

// wait waits for the calls and ends the workers. do must not be called after it.
func (w *workers) wait() {
	w.calls.Wait()
	for _, tasks := range w.idle {
		close(tasks)
	}
	w.all.Wait()
}
