/// Watches the sockets that a C library opens and closes itself. For each socket, the library tells whether it wants to
/// read or write.
///
/// Release this object before the library closes its sockets, because a watch must not outlive its descriptor.
package final class FileWatches {
    private let loop: EventLoop
    private let turn: LoopTurn
    private let deadline: LoopTimer?
    private let handler: (Int32, FileWatch.Interest) -> Void
    private var watches: [Int32: FileWatch] = [:]

    /// How many watches without a condition are kept. Libraries often ask for a condition again soon, and the next
    /// socket may get the same descriptor.
    private static let idleLimit = 64

    /// Creates an empty set of watches.
    ///
    /// - Parameters:
    ///   - loop: the loop that watches the sockets.
    ///   - turn: the priority of the handler.
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

    /// Sets the conditions that are watched on a socket. Before the socket is closed, call this function without any
    /// condition.
    package func watch(_ descriptor: Int32, for interest: FileWatch.Interest) {
        if interest.isEmpty, watches.count > Self.idleLimit {
            watches[descriptor] = nil
            return
        }
        do {
            let watch = try watches[descriptor] ?? makeWatch(descriptor)
            try watch.watch(for: interest)
        } catch {
            // If memory for the event is lacking, the socket is not watched, and its operation ends by its time-out.
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
