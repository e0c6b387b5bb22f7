package fleet

import (
	"context"
	"sync"

	"github.com/valkey-io/valkey-go"
)

// Valkey returns a Client that uses an existing client of Valkey or Redis.
// Most programs use [Dial].
func Valkey(client valkey.Client) Client { return &valkeyClient{client: client} }

type valkeyClient struct {
	client  valkey.Client
	scripts sync.Map // from text to *valkey.Lua
}

func (c *valkeyClient) Eval(ctx context.Context, script string, keys, args []string) ([]string, error) {
	lua, ok := c.scripts.Load(script)
	if !ok {
		lua, _ = c.scripts.LoadOrStore(script, valkey.NewLuaScript(script))
	}
	return lua.(*valkey.Lua).Exec(ctx, c.client, keys, args).AsStrSlice()
}
