/// The sockets of a C library that opens and closes them itself, each watched for what the library wants to know of it.
///
/// To be released before the library closes them: a watch must not outlive its descriptor.
package final class FileWatches {
    private let loop: EventLoop
    private let turn: LoopTurn
    private let deadline: LoopTimer?
    private let handler: (Int32, FileWatch.Interest) -> Void
    private var watches: [Int32: FileWatch] = [:]

    /// How many watches are kept for sockets that nothing is to be known of, since that often changes soon. Such a
    /// watch does nothing, and serves as well the next socket with the same number.
    private static let idleLimit = 64

    /// - Parameters:
    ///   - loop: where the sockets are watched.
    ///   - turn: when the handler is called.
    ///   - deadline: the timer that ends what the library waits for.
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

    /// Replaces what the socket is watched for, also with nothing, as it must be before the socket is closed.
    package func watch(_ descriptor: Int32, for interest: FileWatch.Interest) {
        if interest.isEmpty, watches.count > Self.idleLimit {
            watches[descriptor] = nil
            return
        }
        do {
            let watch = try watches[descriptor] ?? makeWatch(descriptor)
            try watch.watch(for: interest)
        } catch {
            // Without memory for an event, whatever waits for the socket ends by its time-out.
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
