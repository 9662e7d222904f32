from tutti.cli import main

main()
