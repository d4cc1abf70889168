runtime! syntax/cuda.vim
