package statuspage_test

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/retrytest"
	"example.com/awsretry/statuspage"
)

// A page beside net/http/pprof, on a port that only operators reach.
func Example() {
	t := &awsretry.Transport{}
	page := statuspage.New(t)
	t.Observe = page.Observe
	http.Handle("/debug/awsretry", page)

	t.Base = retrytest.Statuses(503, 200)
	retrytest.NoWait(t)
	client := &http.Client{Transport: t}
	if resp, err := client.Get("http://service.example/orders"); err == nil {
		resp.Body.Close()
	}
	admin := httptest.NewServer(http.DefaultServeMux)
	defer admin.Close()
	resp, err := http.Get(admin.URL + "/debug/awsretry?format=json")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if line := strings.TrimSpace(lines.Text()); strings.HasPrefix(line, `"attempts": 2`) || strings.HasPrefix(line, `"status"`) {
			fmt.Println(line)
		}
	}
	// Output:
	// "attempts": 2,
	// "status": 503
}

// One page for several Transports, and a log beside it.
func ExamplePage_Add() {
	orders, payments := &awsretry.Transport{}, &awsretry.Transport{AttemptTimeout: 2 * time.Second}
	page, log := statuspage.New(), awsretry.LogTo(nil)
	for name, t := range map[string]*awsretry.Transport{"orders": orders, "payments": payments} {
		page.Add(name, t)
		t.Observe = func(a awsretry.Attempt) { page.Observe(a); log(a) }
	}

	w := httptest.NewRecorder()
	page.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	fmt.Println(w.Code, strings.Contains(w.Body.String(), "payments"))
	// Output: 200 true
}
