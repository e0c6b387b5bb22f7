package fleettest

import (
	"errors"
	"fmt"
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
	e.replace(e.state.G.Global, "tonumber", toNumber)
	e.replace(e.state.GetGlobal(lua.StringLibName).(*lua.LTable), "format", format)
	return e
}

// replace replaces a function of a library by one that may call it.
func (e *engine) replace(library *lua.LTable, name string, with func(lua.LGFunction) lua.LGFunction) {
	old := library.RawGetString(name).(*lua.LFunction).GFunction
	library.RawSetString(name, e.state.NewFunction(with(old)))
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

// reply converts what a script returned.
func reply(result lua.LValue) ([]string, error) {
	t, ok := result.(*lua.LTable)
	if !ok {
		return nil, fmt.Errorf("fleettest: the script returned a %s; it must return an array", result.Type())
	}
	if err, ok := t.RawGetString("err").(lua.LString); ok {
		return nil, errors.New(string(err))
	}
	texts := make([]string, t.Len())
	for i := range texts {
		v := t.RawGetInt(i + 1)
		text, ok := v.(lua.LString)
		if !ok {
			return nil, fmt.Errorf("fleettest: the script returned an array with a %s; it must be of strings", v.Type())
		}
		texts[i] = string(text)
	}
	return texts, nil
}

func errorReply(state *lua.LState) int {
	t := state.NewTable()
	t.RawSetString("err", state.Get(1))
	state.Push(t)
	return 1
}
