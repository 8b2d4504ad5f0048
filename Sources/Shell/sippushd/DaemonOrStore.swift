import Control
import Glibc
import HTTPServices
import ProxyDaemon
import ProxyRuntime

/// Functions for commands that work with or without a running daemon. While a daemon runs, the command uses the control
/// socket, so that the daemon applies a change immediately. Without a daemon, the command itself reads and changes the
/// store.
extension Command.Invocation {
    func askDaemon<Value>(
        _ ask: (ControlConnection) async throws(Command.Failure) -> Value,
        orStore body: (OfflineStore) throws(StartError) -> Value
    ) async throws(Command.Failure) -> Value {
        let settings = try settings()
        let control = ControlConnection(path: settings.control)
        let place = try offline { () throws(StartError) in try settings.storePlace() }
        let store = OfflineStore(
            place, domains: settings.domains, apps: settings.api.mobileApps,
            realms: settings.userRealms)
        let isMissing = store.isMissing
        // The command waits for a starting daemon, which opens the store before it listens on the control socket.
        for _ in 0..<Self.patience {
            if try control.isAlive { return try await ask(control) }
            do throws(StartError) {
                return try warning(of: isMissing, store) { () throws(StartError) in try body(store) }
            } catch {
                guard error.isStoreInUse else { throw .failed(text: error.description) }
            }
            usleep(Self.pause)
        }
        if try control.isAlive { return try await ask(control) }
        return try offline { () throws(StartError) in
            try warning(of: isMissing, store) { () throws(StartError) in try body(store) }
        }
    }

    /// How often a command tries to reach a starting daemon, and the pause between two tries in microseconds (ten
    /// seconds in all).
    private static let patience = 200
    private static let pause: UInt32 = 50_000

    private func warning<Value>(
        of isMissing: Bool, _ store: OfflineStore, _ body: () throws(StartError) -> Value
    ) throws(StartError) -> Value {
        let value = try body()
        if isMissing, store.isMissing { complain([store.missingSentence]) }
        return value
    }
}

/// Runs an operation without a daemon, and converts the operation's error to the command's error.
func offline<Value>(_ body: () throws(StartError) -> Value) throws(Command.Failure) -> Value {
    do throws(StartError) { return try body() } catch { throw .failed(text: error.description) }
}

extension Command {
    /// Creates a command that removes the object that its argument names.
    ///
    /// - Parameters:
    ///   - name: the name of the `sippushd` command.
    ///   - summary: the sentence in the command's help.
    ///   - argument: the placeholder for the object's name in the help.
    ///   - resource: the path in the daemon's API, to which the object's name is appended.
    ///   - isUser: whether the object is a user, whose domain can be omitted.
    ///   - example: a name for the example in the help.
    ///   - remove: the closure that removes the object from the store.
    /// - Returns: the command.
    static func removing(
        _ name: String, _ summary: String, argument: String = "NAME", from resource: String,
        isUser: Bool = false, example: String,
        orStore remove: @escaping @Sendable (OfflineStore, String) throws(StartError) -> Void
    ) -> Command {
        Command(
            name: name, summary: summary, arguments: argument, options: [configOption], examples: ["\(name) \(example)"]
        ) { invocation throws(Failure) in
            let removed = isUser ? try invocation.onlyUser() : try invocation.onlyArgument(argument)
            try await invocation.askDaemon { control throws(Failure) in
                try await control.delete("\(resource)/\(pathSegment(removed))")
            } orStore: { store throws(StartError) in
                try remove(store, removed)
            }
            say("removed")
        }
    }
}
