/// Watches the sockets of a C library that opens and closes them itself. The library names the conditions for each
/// socket.
///
/// Release this object before the library closes its sockets: a watch must not outlive its descriptor.
package final class FileWatches {
    private let loop: EventLoop
    private let turn: LoopTurn
    private let deadline: LoopTimer?
    private let handler: (Int32, FileWatch.Interest) -> Void
    private var watches: [Int32: FileWatch] = [:]

    /// How many watches without a condition are kept. Libraries often soon ask for a condition again, and the next
    /// socket may get the same number.
    private static let idleLimit = 64

    /// Creates the object without watches.
    ///
    /// - Parameters:
    ///   - loop: the loop that watches the sockets.
    ///   - turn: the turn in which the handler is called.
    ///   - deadline: the timer that ends the library's waiting.
    ///   - handler: called while a socket is ready.
    package init(
        on loop: EventLoop, turn: LoopTurn = .usual, until deadline: LoopTimer?,
        handler: @escaping (_ descriptor: Int32, _ ready: FileWatch.Interest) -> Void
    ) {
        self.loop = loop
        self.turn = turn
        self.deadline = deadline
        self.handler = handler
    }

    /// Replaces the conditions that are watched on the socket. Call with no condition before the socket is closed.
    package func watch(_ descriptor: Int32, for interest: FileWatch.Interest) {
        if interest.isEmpty, watches.count > Self.idleLimit {
            watches[descriptor] = nil
            return
        }
        do {
            let watch = try watches[descriptor] ?? makeWatch(descriptor)
            try watch.watch(for: interest)
        } catch {
            // Memory for the event is lacking. The operation on the socket then ends by its time-out.
            watches[descriptor] = nil
        }
    }

    private func makeWatch(_ descriptor: Int32) throws(SystemError) -> FileWatch {
        let watch = try FileWatch(descriptor: descriptor, on: loop, turn: turn, until: deadline) { [handler] ready in
            handler(descriptor, ready)
        }
        watches[descriptor] = watch
        return watch
    }
}
