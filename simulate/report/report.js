"use strict";
// Draws the charts of the page from its data. All charts show the same part of
// the run, and the cursor of one is the cursor of all.
(() => {
	const byId = (id) => document.getElementById(id);
	const data = JSON.parse(byId("data").textContent);
	const whole = { min: 0, max: data.duration };
	const least = Math.min(2, data.duration); // seconds that can be zoomed into
	let view = whole;
	let tops = data.top;
	let charts = [];

	const color = (name) => getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();

	// clock writes seconds as in 1m30s.
	function clock(seconds) {
		const sign = seconds < 0 ? "-" : "";
		const tenths = Math.round(Math.abs(seconds) * 10);
		const h = Math.floor(tenths / 36000), m = Math.floor(tenths / 600) % 60, s = (tenths % 600) / 10;
		const parts = (h ? h + "h" : "") + (m ? m + "m" : "") + (s ? s + "s" : "");
		return sign + (parts || "0s");
	}

	const figure = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 4 });
	const value = (v) => (v == null ? "" : figure.format(v));

	const topOf = (kind) => (tops[kind] || 1) * 1.06;

	// zoom shows a part of the run in all charts.
	function zoom(min, max) {
		const span = Math.min(Math.max(max - min, least), data.duration);
		min = Math.min(Math.max((min + max - span) / 2, 0), data.duration - span);
		view = { min, max: min + span };
		for (const c of charts) c.setScale("x", view);
		byId("range").textContent = clock(view.min) + " to " + clock(view.max);
	}

	function bands(u) {
		const { left, top, width, height } = u.bbox;
		u.ctx.save();
		u.ctx.fillStyle = color("event");
		for (const e of data.events || []) {
			const from = Math.max(u.valToPos(e.from, "x", true), left);
			const to = Math.min(Math.max(u.valToPos(e.to, "x", true), from + 2 * devicePixelRatio), left + width);
			if (to > from) u.ctx.fillRect(from, top, to - from, height);
		}
		u.ctx.restore();
	}

	function selected(u) {
		if (u.select.width < 3) return;
		const min = u.posToVal(u.select.left, "x"), max = u.posToVal(u.select.left + u.select.width, "x");
		u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
		zoom(min, max);
	}

	// follow passes the movements of the cursor on, and nothing else.
	const follow = (type) => type === "mousemove" || type === "mouseenter" || type === "mouseleave";

	function options(chart, width) {
		const axis = { stroke: () => color("text"), grid: { stroke: () => color("grid"), width: 1 },
			ticks: { stroke: () => color("faint"), width: 1, size: 4 }, font: "12px system-ui, sans-serif" };
		return {
			width, height: chart.kind === "load" ? 240 : 140, padding: [8, 16, 0, 0],
			scales: { x: { time: false, range: () => [view.min, view.max] },
				y: { range: () => [0, topOf(chart.kind)] } },
			axes: [
				{ ...axis, size: 32, space: 70, values: (u, all) => all.map(clock),
					incrs: [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600] },
				{ ...axis, size: 64, space: 32, values: (u, all) => all.map((v) => figure.format(v)) },
			],
			series: [
				{ label: "time", value: (u, v) => (v == null ? "" : clock(v)) },
				...chart.lines.map((l) => ({
					label: l.name, stroke: color(l.ink), width: l.width, dash: l.dash, show: !l.hidden,
					value: (u, v) => value(v), points: { show: chart.times.length < 2 },
				})),
			],
			cursor: {
				sync: { key: "run", setSeries: false, filters: { pub: follow, sub: follow } },
				drag: { x: true, y: false, setScale: false },
				bind: { dblclick: () => () => { zoom(whole.min, whole.max); return null; } },
			},
			hooks: { drawClear: [bands], setSelect: [selected] },
		};
	}

	// operable makes the names under a chart buttons for the keyboard too.
	function operable(u) {
		const rows = u.root.querySelectorAll(".u-legend .u-series");
		rows.forEach((row, i) => {
			if (i === 0) return;
			const name = row.querySelector("th");
			const state = () => name.setAttribute("aria-pressed", String(u.series[i].show));
			name.tabIndex = 0;
			name.setAttribute("role", "button");
			name.addEventListener("click", () => setTimeout(state));
			name.addEventListener("keydown", (e) => {
				if (e.key !== "Enter" && e.key !== " ") return;
				e.preventDefault();
				u.setSeries(i, { show: !u.series[i].show });
				state();
			});
			state();
		});
	}

	function element(name, className, text, parent) {
		const e = document.createElement(name);
		e.className = className;
		e.textContent = text;
		parent.append(e);
		return e;
	}

	function draw() {
		const area = byId("charts");
		const shown = charts.map((u) => u.series.map((s) => s.show)); // as the reader left it
		for (const c of charts) c.destroy();
		charts = [];
		area.replaceChildren();
		for (const setting of data.settings) {
			const section = element("section", "setting", "", area);
			element("h3", "", setting.name, section).dir = "auto";
			element("p", "about", setting.figures, section);
			for (const chart of setting.charts) {
				element("h4", "", chart.title, section);
				const place = element("div", "chart", "", section);
				const values = [chart.times, ...chart.lines.map((l) => l.values)];
				const o = options(chart, area.clientWidth);
				const before = shown[charts.length];
				if (before) o.series.forEach((s, i) => { s.show = before[i]; });
				const u = new uPlot(o, values, place);
				u.kind = chart.kind;
				const canvas = u.root.querySelector("canvas");
				canvas.setAttribute("role", "img");
				canvas.setAttribute("aria-label", chart.title + " of " + setting.name + ": " + setting.figures);
				operable(u);
				charts.push(u);
			}
			if (setting.notes) element("p", "note", setting.notes.join(" "), section);
		}
		zoom(view.min, view.max);
	}

	function scaleAround(factor) {
		const middle = (view.min + view.max) / 2, half = ((view.max - view.min) * factor) / 2;
		zoom(middle - half, middle + half);
	}

	function shift(part) {
		const by = (view.max - view.min) * part;
		const to = Math.min(Math.max(view.min + by, 0), data.duration - (view.max - view.min));
		zoom(to, to + view.max - view.min);
	}

	byId("in").addEventListener("click", () => scaleAround(0.5));
	byId("out").addEventListener("click", () => scaleAround(2));
	byId("left").addEventListener("click", () => shift(-0.5));
	byId("right").addEventListener("click", () => shift(0.5));
	byId("reset").addEventListener("click", () => zoom(whole.min, whole.max));
	byId("whole").addEventListener("change", (e) => {
		tops = e.target.checked ? data.whole : data.top;
		for (const c of charts) c.setScale("y", { min: 0, max: topOf(c.kind) });
	});
	byId("peaks").hidden = !Object.keys(data.top).some((kind) => data.top[kind] < data.whole[kind]);
	byId("theme").addEventListener("change", (e) => {
		if (e.target.value) document.documentElement.dataset.theme = e.target.value;
		else delete document.documentElement.dataset.theme;
		draw();
	});
	matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);

	addEventListener("beforeprint", () => { document.documentElement.dataset.theme = "light"; draw(); });
	addEventListener("afterprint", () => byId("theme").dispatchEvent(new Event("change")));

	byId("copy").hidden = false;
	byId("copy").addEventListener("click", async () => {
		const text = byId("scenario");
		getSelection().selectAllChildren(text);
		try {
			await navigator.clipboard.writeText(text.textContent);
			byId("copied").textContent = "copied";
		} catch {
			byId("copied").textContent = "selected: copy it with the keyboard";
		}
	});

	document.querySelector(".tools").hidden = false;
	document.querySelector(".hint").hidden = false;
	draw();
	let width = byId("charts").clientWidth;
	new ResizeObserver(() => {
		const now = byId("charts").clientWidth;
		if (now === width) return;
		width = now;
		for (const c of charts) c.setSize({ width: now, height: c.height });
	}).observe(byId("charts"));
	document.documentElement.dataset.drawn = "yes";
})();
