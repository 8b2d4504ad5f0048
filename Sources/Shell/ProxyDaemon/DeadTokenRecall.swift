import Addressing
import Bytes
import Persistence
import ProxyRuntime
import PushDelivery
import Reactor
import Registration
import Timekeeping

/// Makes the engine of a node read the users of dead push tokens, because the node knows only some users of the store.
struct DeadTokenRecall {
    let store: any ProxyStore
    let door: ShardDoor
    let loop: EventLoop

    private static let limit = 1000
    private static let pause: Duration = .milliseconds(2)

    /// Searches all contacts of the store for the tokens, and reads the users of found contacts.
    ///
    /// - Returns: false if the store did not answer.
    func recall(_ dead: Set<ByteString>) async -> Bool {
        var last: DeviceID?
        while true {
            guard let rows = try? await store.bindings(after: last, limit: Self.limit) else { return false }
            guard let end = rows.last?.id else { return true }
            last = end
            let found = rows.filter { row in row.pushToken?.appleTokens.contains(where: dead.contains) ?? false }
            for user in Set(found.map(\.aor)) {
                guard await door.read(user) else { return false }
            }
            try? await loop.pause(Self.pause)
        }
    }
}
