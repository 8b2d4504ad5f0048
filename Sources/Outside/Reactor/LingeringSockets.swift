import Collections
import Timekeeping

/// The sockets of connections that the daemon has closed, until their peers have read the end.
///
/// If a socket is closed while received bytes are unread, or receives bytes afterwards, the kernel discards the output
/// that was sent last. Therefore the daemon first ends its own side, and drops further input until the peer ends its
/// side.
final class LingeringSockets {
    private struct LingeringSocket {
        let watch: FileWatch
        let end: Instant
    }

    private var sockets: [UInt64: LingeringSocket] = [:]
    /// All wait equally long, so the first one added is the first to expire.
    private var order = Queue<UInt64>()
    private var lastNumber: UInt64 = 0
    /// It holds the loop, which holds this object, so it ends with the last socket.
    private var timer: LoopTimer?

    /// The time limit for a peer.
    private static let patience: Duration = .seconds(2)
    /// The limit of such sockets. The connections no longer count where they were accepted.
    private static let limit = 1000

    /// Ends our side after the output. The socket is closed when the peer ends its side, or when the time is over.
    func bid(on socket: consuming Descriptor, of loop: EventLoop) {
        System.endOutput(socket.number)
        guard sockets.count < Self.limit else { return }
        lastNumber += 1
        let (number, descriptor) = (lastNumber, socket.number)
        // A peer that keeps sending is served in the turn of connections, and delays nothing else.
        if timer == nil { timer = try? LoopTimer(on: loop, turn: .connections) { [unowned self] in timeIsUp() } }
        let watch = try? FileWatch(owning: socket, on: loop, turn: .connections, until: timer) { [unowned self] _ in
            drop(number, descriptor, loop)
        }
        guard let watch, (try? watch.watch(for: .read)) != nil else { return armTimer() }
        sockets[number] = LingeringSocket(watch: watch, end: SystemClock.now + Self.patience)
        order.append(number)
        armTimer()
    }

    private func drop(_ number: UInt64, _ descriptor: Int32, _ loop: EventLoop) {
        let room = unsafe loop.streams.room(upTo: StreamShare.size)
        do throws(SystemError) {
            guard let count = unsafe try System.receive(descriptor, into: room) else { return }
            if count == 0 { ended(number) }
        } catch {
            ended(number)
        }
    }

    private func ended(_ number: UInt64) {
        sockets[number] = nil
        armTimer()
    }

    private func timeIsUp() {
        let now = SystemClock.now
        while let number = order.first, sockets[number].map({ $0.end <= now }) ?? true {
            _ = order.popFirst()
            sockets[number] = nil
        }
        armTimer()
    }

    private func armTimer() {
        while let number = order.first, sockets[number] == nil { _ = order.popFirst() }
        if let next = order.first.flatMap({ sockets[$0] }) { timer?.arm(at: next.end) } else { timer = nil }
    }
}
