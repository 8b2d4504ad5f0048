import Control
import ProxyRuntime

let storeCopyCommand = Command(
    name: "store copy", summary: "Copy the store from SQLite to PostgreSQL or back, while no daemon runs.",
    arguments: "",
    options: [
        Command.Option(
            name: "--from", value: "PLACE",
            help: "The store: sqlite:PATH, or postgresql:CONNECTION with a connection string of libpq."),
        Command.Option(
            name: "--to", value: "PLACE",
            help: "The copy, which must be empty: sqlite:PATH or postgresql:CONNECTION. An interrupted copy continues."),
    ],
    examples: [
        "store copy --from sqlite:/var/lib/sippushd/sippushd.db --to postgresql://sippushd@db.example.net/sippushd"
    ]
) { invocation throws(Command.Failure) in
    try invocation.expect(arguments: 0)
    guard let source = invocation.value("--from"), let target = invocation.value("--to") else {
        throw .usage("expected --from and --to")
    }
    let count = try offline { () throws(StartError) in
        try StoreTransfer.copy(from: source, to: target) { table, rows, digest in
            say("\(table): \(rows) rows, SHA-256 \(digest.prefix(16))")
        }
    }
    say("copied \(count) rows; both stores have the same rows")
}
