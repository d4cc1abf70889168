-- A user's init.lua, as editors/neovim/README.md says.
vim.opt.runtimepath:append(vim.env.HIPSMITH_ROOT .. '/editors/neovim')
vim.cmd('filetype plugin on')
vim.lsp.config('hipsmith', { cmd = { vim.env.HIPSMITH_BIN, 'lsp' } })
vim.lsp.enable('hipsmith')
