/// The sockets of a C library that opens and closes them itself, each watched for the library's conditions.
///
/// Release it before the library closes them: a watch must not outlive its descriptor.
package final class FileWatches {
    private let loop: EventLoop
    private let turn: LoopTurn
    private let deadline: LoopTimer?
    private let handler: (Int32, FileWatch.Interest) -> Void
    private var watches: [Int32: FileWatch] = [:]

    /// How many watches are kept for sockets without a watched condition, because that often changes soon. Such a watch
    /// does nothing, and can be used for the next socket with the same number.
    private static let idleLimit = 64

    /// - Parameters:
    ///   - loop: the loop that watches the sockets.
    ///   - turn: when the handler is called.
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

    /// Replaces the watched conditions of the socket. Call with none before the socket is closed.
    package func watch(_ descriptor: Int32, for interest: FileWatch.Interest) {
        if interest.isEmpty, watches.count > Self.idleLimit {
            watches[descriptor] = nil
            return
        }
        do {
            let watch = try watches[descriptor] ?? makeWatch(descriptor)
            try watch.watch(for: interest)
        } catch {
            // Without memory for an event, the operation on the socket ends by its time-out.
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
