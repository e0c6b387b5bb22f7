package fleettest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// An engine runs scripts as a store does: with KEYS, ARGV and redis.call. It is
// not safe for concurrent use.
type engine struct {
	state   *lua.LState
	hashes  hashes
	scripts map[string]*lua.LFunction // compiled
}

func newEngine(h hashes) *engine {
	e := &engine{
		state:   lua.NewState(lua.Options{SkipOpenLibs: true}),
		hashes:  h,
		scripts: make(map[string]*lua.LFunction),
	}
	for _, library := range []struct {
		name string
		open lua.LGFunction
	}{
		{lua.BaseLibName, lua.OpenBase},
		{lua.TabLibName, lua.OpenTable},
		{lua.StringLibName, lua.OpenString},
		{lua.MathLibName, lua.OpenMath},
	} {
		e.state.Push(e.state.NewFunction(library.open))
		e.state.Push(lua.LString(library.name))
		e.state.Call(1, 0)
	}
	redis := e.state.NewTable()
	redis.RawSetString("call", e.state.NewFunction(e.call))
	redis.RawSetString("error_reply", e.state.NewFunction(errorReply))
	e.state.SetGlobal("redis", redis)
	texts := e.state.GetGlobal(lua.StringLibName).(*lua.LTable)
	texts.RawSetString("format", e.state.NewFunction(format(texts.RawGetString("format").(*lua.LFunction).GFunction)))
	return e
}

// run runs a script and returns its reply, which must be an array or an error.
func (e *engine) run(script string, keys, args []string) ([]string, error) {
	compiled, err := e.compile(script)
	if err != nil {
		return nil, err
	}
	e.state.SetGlobal("KEYS", e.array(keys))
	e.state.SetGlobal("ARGV", e.array(args))
	if err := e.state.CallByParam(lua.P{Fn: compiled, NRet: 1, Protect: true}); err != nil {
		return nil, fmt.Errorf("fleettest: the script failed: %w", err)
	}
	result := e.state.Get(-1)
	e.state.Pop(1)
	return reply(result)
}

func (e *engine) compile(script string) (*lua.LFunction, error) {
	if compiled, ok := e.scripts[script]; ok {
		return compiled, nil
	}
	chunk, err := parse.Parse(strings.NewReader(script), "script")
	if err != nil {
		return nil, fmt.Errorf("fleettest: the script cannot be parsed: %w", err)
	}
	proto, err := lua.Compile(chunk, "script")
	if err != nil {
		return nil, fmt.Errorf("fleettest: the script cannot be compiled: %w", err)
	}
	compiled := e.state.NewFunctionFromProto(proto)
	e.scripts[script] = compiled
	return compiled, nil
}

func (e *engine) array(texts []string) *lua.LTable {
	t := e.state.CreateTable(len(texts), 0)
	for _, text := range texts {
		t.Append(lua.LString(text))
	}
	return t
}

// reply converts what a script returned. An array ends at its first nil.
func reply(result lua.LValue) ([]string, error) {
	t, ok := result.(*lua.LTable)
	if !ok {
		return nil, fmt.Errorf("fleettest: the script returned a %s; it must return an array", result.Type())
	}
	if err, ok := t.RawGetString("err").(lua.LString); ok {
		return nil, errors.New(string(err))
	}
	texts := make([]string, 0, t.Len())
	for i := 1; i <= t.Len(); i++ {
		switch v := t.RawGetInt(i).(type) {
		case lua.LString:
			texts = append(texts, string(v))
		case lua.LNumber: // stores return whole numbers
			texts = append(texts, strconv.FormatInt(int64(v), 10))
		default:
			return nil, fmt.Errorf("fleettest: the script returned an array with a %s; it must be of strings", v.Type())
		}
	}
	return texts, nil
}

func errorReply(state *lua.LState) int {
	t := state.NewTable()
	t.RawSetString("err", state.Get(1))
	state.Push(t)
	return 1
}

// format returns string.format with a fast way for the format of all numbers.
func format(all lua.LGFunction) lua.LGFunction {
	return func(state *lua.LState) int {
		n, ok := state.Get(2).(lua.LNumber)
		if !ok || state.GetTop() != 2 || state.Get(1) != lua.LString("%.17g") {
			return all(state)
		}
		state.Push(lua.LString(text(n)))
		return 1
	}
}

// text formats a number as C does with %.17g, which keeps all of it.
func text(n lua.LNumber) string {
	if n == lua.LNumber(int64(n)) && n > -1e15 && n < 1e15 {
		return strconv.FormatInt(int64(n), 10)
	}
	return strconv.FormatFloat(float64(n), 'g', 17, 64)
}
