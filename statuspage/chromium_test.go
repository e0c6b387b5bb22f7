package statuspage

import (
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"example.com/awsretry/internal/chromium"
)

var picture = flag.String("picture", "", "a file for a picture of the page")

// The page in a real browser: light, dark and on a phone.
func TestInChromium(t *testing.T) {
	if testing.Short() {
		t.Skip("starts Chromium")
	}
	b := chromium.Start(t)
	var answer atomic.Pointer[httptest.ResponseRecorder]
	var loads atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/" {
			http.NotFound(w, r) // of /favicon.ico
			return
		}
		loads.Add(1)
		recorded := answer.Load()
		for name, values := range recorded.Header() {
			w.Header()[name] = values
		}
		_, _ = w.Write(recorded.Body.Bytes())
	}))
	defer server.Close()
	show := func(t *testing.T, url string) {
		scene(t, func(page *Page) { answer.Store(get(t, page, url)) })
		b.Command(nil, "Page.navigate", chromium.Values{"url": server.URL + url})
		chromium.Eventually(t, "the page is there", func() bool {
			return b.Holds(`document.readyState === "complete" && document.querySelectorAll("article").length === 5`)
		})
	}
	b.Window(1000, 800)
	b.Scheme("light")
	show(t, "/?refresh=off")
	if *picture != "" { // down to the settings
		height := chromium.Eval[float64](b, `document.querySelector(".settings").closest("section").getBoundingClientRect().top`)
		if err := os.WriteFile(*picture, b.Picture(1000, int(height)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const background = `getComputedStyle(document.body).backgroundColor`
	fits := func(t *testing.T) {
		t.Helper()
		if wide := chromium.Eval[[]string](b, `[...document.querySelectorAll("body *")].filter((e) =>
			e.getBoundingClientRect().right > innerWidth + 0.5).map((e) => e.outerHTML.slice(0, 200))`); len(wide) > 0 {
			t.Errorf("wider than the window: %q", wide)
		}
	}
	t.Run("light", func(t *testing.T) {
		fits(t)
		if got := chromium.Eval[string](b, background); got != "rgb(244, 245, 247)" {
			t.Error("the style is not applied:", got)
		}
		if got := chromium.Eval[string](b, `getComputedStyle(document.querySelector("article")).borderLeftColor`); got != "rgb(176, 0, 32)" {
			t.Error("the edge of the service of which all fails is", got)
		}
	})
	t.Run("chart", func(t *testing.T) {
		for class, least := range map[string]int{"first": 100, "retry": 15, "refused": 10} {
			drawn := chromium.Eval[int](b, `[...document.querySelectorAll(".chart .`+class+`")].filter((e) => {
				const r = e.getBoundingClientRect(); return r.width > 1 && r.height > 1;
			}).length`)
			if drawn < least {
				t.Errorf("%d bars of class %s, want %d at least", drawn, class, least)
			}
		}
	})
	t.Run("dark", func(t *testing.T) {
		b.Scheme("dark")
		chromium.Eventually(t, "the page is dark", func() bool { return b.Holds(background + ` === "rgb(18, 21, 25)"`) })
		if text := chromium.Eval[string](b, `getComputedStyle(document.querySelector("h3")).color`); text != "rgb(230, 230, 230)" {
			t.Error("the text is", text)
		}
	})
	t.Run("400 px", func(t *testing.T) {
		b.Window(400, 800)
		fits(t)
		if chromium.Eval[float64](b, `document.querySelector(".chart").getBoundingClientRect().width`) < 300 {
			t.Error("the charts are narrow")
		}
	})
	t.Run("quiet", func(t *testing.T) {
		for _, method := range []string{"Runtime.exceptionThrown", "Runtime.consoleAPICalled"} {
			if all := b.Heard(method); len(all) > 0 {
				t.Errorf("%s: %s", method, all)
			}
		}
		for _, entry := range b.Heard("Log.entryAdded") {
			if !strings.Contains(entry, "favicon.ico") {
				t.Error(entry) // such as a violation of the Content-Security-Policy
			}
		}
	})
	t.Run("without JavaScript, and by itself", func(t *testing.T) {
		b.Command(nil, "Emulation.setScriptExecutionDisabled", chromium.Values{"value": true})
		show(t, "/")
		before := loads.Load()
		chromium.Eventually(t, "the page loads itself again", func() bool { return loads.Load() > before })
	})
}
