if vim.g.loaded_hipsmith then
  return
end
vim.g.loaded_hipsmith = true

if vim.fn.has('nvim-0.11') == 0 then
  vim.notify('hipsmith needs Neovim 0.11 or later', vim.log.levels.ERROR)
  return
end

-- Neovim 0.11 does not know *.hip yet; later versions name it the same.
if not vim.filetype.match({ filename = 'x.hip' }) then
  vim.filetype.add({ extension = { hip = 'hip' } })
end
vim.treesitter.language.register('cpp', 'hip')

local command = vim.api.nvim_create_user_command
local function hipsmith()
  return require('hipsmith')
end

command('HipOptimize', function(args)
  hipsmith().optimize({ program = args.fargs })
end, { nargs = '*', complete = 'file', desc = 'Optimize the kernel under the cursor [program and its arguments]' })
command('HipJobs', function()
  require('hipsmith.jobs').list()
end, { desc = 'List the optimization jobs of this session' })
command('HipDiff', function(args)
  hipsmith().preview(args.fargs[1])
end, { nargs = '?', desc = 'Show the diff of a finished job' })
command('HipAccept', function(args)
  hipsmith().accept(args.fargs[1])
end, { nargs = '?', desc = 'Accept the diff of a finished job' })
command('HipDismiss', function(args)
  hipsmith().dismiss(args.fargs[1])
end, { nargs = '?', desc = 'Dismiss the result of a finished job' })
command('HipCancel', function(args)
  hipsmith().cancel(args.fargs[1])
end, { nargs = '?', desc = 'Cancel a running job' })
command('HipExplain', function(args)
  hipsmith().explain(args.fargs[1])
end, { nargs = '?', desc = 'Show the page of a rule (default: the finding under the cursor)' })

-- Both run on this side first: one asks for trust, the other draws the diff.
vim.lsp.commands['hipsmith.optimizeKernel'] = function(cmd, ctx)
  hipsmith().run_optimize(cmd, ctx)
end
vim.lsp.commands['hipsmith.client.previewJob'] = function(cmd)
  hipsmith().preview((cmd.arguments or {})[1] and cmd.arguments[1].jobId)
end
