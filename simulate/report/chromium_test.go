package report

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry/internal/chromium"
	"example.com/awsretry/simulate/scenario"
)

// The page in a real browser: what it draws, and how it reacts to the mouse and the
// keyboard.
func TestInChromium(t *testing.T) {
	b := chromium.Start(t)
	open := func(t *testing.T, s scenario.Scenario) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "out.html")
		page := write(t, run(t, s), Origin{Command: "awsretry simulate lively", Version: "v1.2.3"})
		if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
			t.Fatal(err)
		}
		b.Command(nil, "Page.navigate", chromium.Values{"url": (&url.URL{Scheme: "file", Path: file}).String()})
		chromium.Eventually(t, "the page is drawn", func() bool {
			return b.Holds(`location.href.endsWith("out.html") && document.documentElement.dataset.drawn === "yes"`)
		})
	}
	s := lively()
	const hostile = `<b id="injected">bold</b> ` + "\u0625\u0639\u0627\u062f\u0629"
	s.Settings[1].Name = hostile
	b.Window(1200, 1600)
	b.Scheme("light")
	open(t, s)

	t.Run("charts", func(t *testing.T) {
		// A chart for the load of each setting, two for buckets, one for a limiter,
		// and one for the clients that join of each setting.
		all := chromium.Eval[[]map[string]int](b, colorsOfCharts)
		if len(all) != 9 || slices.ContainsFunc(all, func(colors map[string]int) bool { return len(colors) < 4 }) {
			t.Errorf("the charts have the colors %v, want 9 charts with 4 at least", all)
		}
		if load := all[0]; load["213,94,0"] < 50 || load["0,114,178"] < 50 || load["241,236,223"] < 1000 {
			t.Errorf("the first chart has no attempts, no goodput or no event: %v", load)
		}
	})
	t.Run("text", func(t *testing.T) {
		if b.Holds(`document.getElementById("injected")`) {
			t.Error("a name became an element")
		}
		if got := chromium.Eval[string](b, `document.querySelectorAll("#charts h3")[1].textContent`); got != hostile {
			t.Errorf("the heading is %q", got)
		}
		if !b.Holds(`document.getElementById("scenario").textContent.includes("max_attempts: 5")`) {
			t.Error("the scenario is not shown")
		}
		if b.Holds(`document.documentElement.scrollWidth > innerWidth`) {
			t.Error("the page is wider than the window")
		}
	})
	t.Run("colors", func(t *testing.T) {
		const background = `getComputedStyle(document.body).backgroundColor`
		b.Scheme("dark")
		chromium.Eventually(t, "the page is dark", func() bool { return b.Holds(background + ` === "rgb(22, 25, 29)"`) })
		chromium.Eventually(t, "the charts are dark", func() bool {
			colors := chromium.Eval[[]map[string]int](b, colorsOfCharts)[0]
			return colors["86,180,233"] >= 50 && colors["59,53,39"] >= 1000
		})
		chromium.Eval[any](b, `(() => {
			const theme = document.getElementById("theme");
			theme.value = "light";
			theme.dispatchEvent(new Event("change"));
		})()`)
		if !b.Holds(background + ` === "rgb(255, 255, 255)"`) {
			t.Error("the page is dark although the reader wants light")
		}
	})
	t.Run("cursor", func(t *testing.T) {
		mouse(t, b, "mouseMoved", 0, 0.5, 0)
		chromium.Eventually(t, "all charts show the time of the cursor", func() bool {
			times := chromium.Eval[[]string](b, timesUnderCursor)
			return len(times) == 9 && !slices.ContainsFunc(times, func(shown string) bool {
				d, err := time.ParseDuration(shown)
				return err != nil || d < 14*time.Second || d > 16*time.Second
			})
		})
	})
	t.Run("zoom", func(t *testing.T) {
		mouse(t, b, "mouseMoved", 0, 1./3, 0)
		mouse(t, b, "mousePressed", 0, 1./3, 1)
		mouse(t, b, "mouseMoved", 0, 0.5, 1)
		mouse(t, b, "mouseMoved", 0, 2./3, 1)
		mouse(t, b, "mouseReleased", 0, 2./3, 0)
		const shown = `document.getElementById("range").textContent`
		chromium.Eventually(t, "10s to 20s are shown", func() bool { return b.Holds(shown + ` === "10s to 20s"`) })
		mouse(t, b, "mouseMoved", 8, 0.99, 0)
		chromium.Eventually(t, "the other charts zoom too", func() bool {
			return !slices.ContainsFunc(chromium.Eval[[]string](b, timesUnderCursor), func(shown string) bool {
				d, err := time.ParseDuration(shown)
				return err != nil || d < 19*time.Second || d > 20500*time.Millisecond
			})
		})
		for _, step := range []struct{ click, want string }{
			{"reset", "0s to 30s"}, {"in", "7.5s to 22.5s"},
			{"right", ""}, {"right", ""}, {"right", ""}, {"right", "15s to 30s"},
		} {
			chromium.Eval[any](b, `document.getElementById("`+step.click+`").click()`)
			if got := chromium.Eval[string](b, shown); step.want != "" && got != step.want {
				t.Errorf("%s shows %s, want %s", step.click, got, step.want)
			}
		}
	})
	t.Run("names", func(t *testing.T) {
		const name = `document.querySelectorAll(".u-legend .u-series th")[4]`
		before := chromium.Eval[string](b, name+`.getAttribute("aria-pressed")`)
		chromium.Eval[any](b, name+`.focus()`)
		for _, kind := range []string{"keyDown", "keyUp"} {
			b.Command(nil, "Input.dispatchKeyEvent", chromium.Values{
				"type": kind, "key": "Enter", "code": "Enter", "text": "\r", "windowsVirtualKeyCode": 13,
			})
		}
		if after := chromium.Eval[string](b, name+`.getAttribute("aria-pressed")`); before != "false" || after != "true" {
			t.Errorf("the curve is shown: %s, then %s", before, after)
		}
	})
	t.Run("contrast", func(t *testing.T) {
		for _, scheme := range []string{"light", "dark"} {
			b.Scheme(scheme)
			chromium.Eval[any](b, `(() => {
				const theme = document.getElementById("theme");
				theme.value = "`+scheme+`";
				theme.dispatchEvent(new Event("change"));
			})()`)
			for name, contrast := range chromium.Eval[map[string]float64](b, contrastOfNames) {
				if contrast < 4.5 {
					t.Errorf("%s: the name %s has a contrast of %.2f", scheme, name, contrast)
				}
			}
		}
	})
	t.Run("copy", func(t *testing.T) {
		chromium.Eval[any](b, `document.getElementById("copy").click()`)
		chromium.Eventually(t, "the scenario is selected", func() bool {
			return b.Holds(`document.getElementById("copied").textContent !== "" &&
				String(getSelection()).includes("name: lively")`)
		})
	})
	t.Run("quiet", func(t *testing.T) {
		for _, method := range []string{"Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"} {
			if all := b.Heard(method); len(all) > 0 {
				t.Errorf("%s: %s", method, all)
			}
		}
		for _, request := range b.Heard("Network.requestWillBeSent") {
			if !strings.Contains(request, `"url":"file:///`) && !strings.Contains(request, `"url":"about:blank"`) {
				t.Errorf("a request: %.300s", request)
			}
		}
	})
	// A run of a second with nothing but its load. The first page must be gone.
	t.Run("hardly anything", func(t *testing.T) {
		b.Command(nil, "Page.navigate", chromium.Values{"url": "about:blank"})
		chromium.Eventually(t, "the page is empty", func() bool { return b.Holds(`location.href === "about:blank"`) })
		s := lively()
		s.Name, s.About, s.Events, s.Duration = "", "", nil, seconds(1)
		s.Settings = []scenario.Setting{{Use: scenario.UseNone}}
		open(t, s)
		if colors := chromium.Eval[[]map[string]int](b, colorsOfCharts); len(colors) != 1 || len(colors[0]) < 4 {
			t.Errorf("the chart has the colors %v", colors)
		}
	})
	// Last, as the browser logs what it refuses.
	t.Run("policy", func(t *testing.T) {
		var reached atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
		defer server.Close()
		fetched := chromium.Eval[string](b, `fetch("`+server.URL+`").then(() => "yes", () => "no")`)
		if fetched != "no" || reached.Load() != 0 {
			t.Errorf("fetched: %s, %d requests", fetched, reached.Load())
		}
	})
}

const (
	timesUnderCursor = `[...document.querySelectorAll(".u-legend")].map((l) => l.querySelector(".u-value").textContent)`

	// contrastOfNames returns WCAG's contrast of each name under a chart.
	contrastOfNames = `(() => {
		const rgb = (color) => color.match(/[\d.]+/g).slice(0, 3).map(Number);
		const luminance = (all) => {
			const [r, g, b] = all.map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
			return 0.2126 * r + 0.7152 * g + 0.0722 * b;
		};
		const page = rgb(getComputedStyle(document.body).backgroundColor);
		const all = {};
		for (const name of document.querySelectorAll(".u-legend .u-series th .u-label")) {
			let alpha = 1;
			for (let e = name; e; e = e.parentElement) alpha *= getComputedStyle(e).opacity;
			const color = rgb(getComputedStyle(name).color).map((v, i) => alpha * v + (1 - alpha) * page[i]);
			const [dark, light] = [luminance(color), luminance(page)].sort((a, b) => a - b);
			const off = name.closest(".u-series").className;
			all[name.textContent + " " + off] = (light + 0.05) / (dark + 0.05);
		}
		return all;
	})()`

	// colorsOfCharts counts the pixels of each opaque color of each chart.
	colorsOfCharts = `[...document.querySelectorAll("canvas")].map((c) => {
		const copy = new OffscreenCanvas(c.width, c.height).getContext("2d", { willReadFrequently: true });
		copy.drawImage(c, 0, 0);
		const count = {}, all = copy.getImageData(0, 0, c.width, c.height).data;
		for (let i = 0; i < all.length; i += 4) {
			if (all[i + 3] !== 255) continue;
			const color = all.slice(i, i + 3).join();
			count[color] = (count[color] || 0) + 1;
		}
		return count;
	})`
)

// mouse scrolls to a chart and moves the mouse to a part of its width, with so
// many buttons held down, or presses or releases the button there.
func mouse(t *testing.T, b *chromium.Browser, kind string, chart int, part float64, buttons int) {
	t.Helper()
	at := chromium.Eval[[]float64](b, fmt.Sprintf(`(() => {
		const e = document.querySelectorAll(".u-over")[%d];
		e.scrollIntoView({ block: "center" });
		const r = e.getBoundingClientRect();
		return [r.x + r.width * %v, r.y + r.height / 2];
	})()`, chart, part))
	b.Command(nil, "Input.dispatchMouseEvent", chromium.Values{
		"type": kind, "x": at[0], "y": at[1], "button": "left", "buttons": buttons, "clickCount": 1,
	})
}
