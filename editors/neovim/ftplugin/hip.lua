vim.bo.commentstring = '// %s'
vim.bo.cindent = true
