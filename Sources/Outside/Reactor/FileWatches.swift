/// Watches the sockets that a C library opens and closes itself.
///
/// The owner releases ``FileWatches`` before the library closes its sockets, because a watch must end before its
/// descriptor.
package final class FileWatches {
    private let loop: EventLoop
    private let turn: LoopTurn
    private let deadline: LoopTimer?
    private let handler: (Int32, FileWatch.Interest) -> Void
    private var watches: [Int32: FileWatch] = [:]

    /// The maximum number of kept watches that wait for neither reading nor writing. An idle watch is kept, because
    /// libraries often wait on the same descriptor again soon.
    private static let idleLimit = 64

    /// Creates an empty set of watches on descriptors.
    ///
    /// - Parameters:
    ///   - loop: the loop that watches the sockets.
    ///   - turn: the priority of the handler in the event loop.
    ///   - deadline: the timer that limits the library's wait.
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

    /// Watches a socket as the library asks for it. Before the library closes a socket, the owner calls
    /// ``watch(_:for:)`` with an empty `interest`.
    package func watch(_ descriptor: Int32, for interest: FileWatch.Interest) {
        if interest.isEmpty, watches.count > Self.idleLimit {
            watches[descriptor] = nil
            return
        }
        do {
            let watch = try watches[descriptor] ?? makeWatch(descriptor)
            try watch.watch(for: interest)
        } catch {
            // If memory for the event is lacking, the library's operation ends by its own time limit.
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
