package import Addressing

/// The numbers of datagrams that a UDP socket has received, sent and lost since its creation.
package struct DatagramCounters: Hashable, Sendable {
    package var received: UInt64
    package var sent: UInt64
    /// The number of outgoing datagrams that were dropped before they reached the kernel, because the queue was full.
    package var dropped: UInt64
    /// The number of outgoing datagrams that the kernel refused, because they had no route, were too long, or were
    /// forbidden.
    package var sendFailures: UInt64

    package init(received: UInt64 = 0, sent: UInt64 = 0, dropped: UInt64 = 0, sendFailures: UInt64 = 0) {
        self.received = received
        self.sent = sent
        self.dropped = dropped
        self.sendFailures = sendFailures
    }
}

/// A bound UDP socket, which receives and sends datagrams in batches.
///
/// - The type is `@unchecked Sendable`, because every use is checked to be on the loop's thread.
package final class UDPSocket: @unchecked Sendable {
    /// The address to which the socket is bound. If port 0 was requested, the address has the port that the kernel
    /// chose.
    package let local: Endpoint
    /// The only peer of a socket that was created by ``init(sendingTo:on:queueLimit:)``.
    package let peer: Endpoint
    private(set) package var counters = DatagramCounters()

    /// The number of datagrams that the kernel dropped because they were not received in time.
    package var receiveDrops: UInt64 { watch.map { UInt64(System.receiveDrops($0.descriptor)) } ?? 0 }

    /// The time that the last received datagram waited in the kernel; `nil` if the kernel does not report the time yet.
    package var lastWait: Duration? { watch.flatMap { System.waitOfLastDatagram($0.descriptor) } }

    private let loop: EventLoop
    /// The event loop's watch on the socket, which owns the descriptor; `nil` after the socket was closed.
    private var watch: FileWatch?
    private let flushTimer: LoopEvent
    private let batch: DatagramBatch
    private let queue: DatagramQueue
    private var handler: (DatagramBatch) -> Void = { _ in }
    private var isHandling = false
    private var isFlushPlanned = false
    private var isBlocked = false
    /// The number of full batches that were received without a batch that was not full.
    private var fullBatches = 0

    private static let kernelBuffer: Int32 = 8 << 20
    package static let usualQueueLimit = 1024
    /// The number of successive full batches after which waiting connections are served.
    private static let batchesInARow = 8

    /// Binds the socket, which receives nothing until ``receive(_:)`` is called.
    ///
    /// A datagram that is longer than `datagramLimit` bytes is cut and marked. The default of `datagramLimit` is higher
    /// than the length of the longest UDP datagram. At most `queueLimit` datagrams wait to be sent; further datagrams
    /// are dropped.
    package init(
        boundTo endpoint: Endpoint, on loop: EventLoop, datagramLimit: Int = 65_535,
        queueLimit: Int = UDPSocket.usualQueueLimit
    ) throws(SystemError) {
        loop.checkThread()
        self.loop = loop
        flushTimer = try LoopEvent(loop: loop, number: -1, flags: 0)
        let descriptor = try loop.handover.socket(System.datagram, boundTo: endpoint)
        local = System.localEndpoint(descriptor.number) ?? endpoint
        peer = Endpoint(.anyV4, 0)
        batch = DatagramBatch(slot: datagramLimit)
        queue = DatagramQueue(capacity: queueLimit)
        System.growBuffers(descriptor.number, to: Self.kernelBuffer)
        watch = try FileWatch(owning: descriptor, on: loop, until: nil) { [weak self] ready in self?.becameReady(ready)
        }
        flushTimer.setTarget(self)
    }

    /// Creates a socket that only sends, and only to one peer. The kernel then reports to the socket that the peer does
    /// not listen, which counts as a failure to send. Datagrams of other senders never reach the socket, and the kernel
    /// drops datagrams of the connected peer when the socket's buffer is full.
    package init(
        sendingTo peer: Endpoint, on loop: EventLoop, queueLimit: Int = UDPSocket.usualQueueLimit
    ) throws(SystemError) {
        loop.checkThread()
        self.loop = loop
        flushTimer = try LoopEvent(loop: loop, number: -1, flags: 0)
        let any = Endpoint(peer.address.isV4 ? .anyV4 : IPAddress(high: 0, low: 0), 0)
        let descriptor = try System.boundSocket(System.datagram, to: any)
        if let failure = System.connect(descriptor.number, to: peer) { throw failure }
        local = System.localEndpoint(descriptor.number) ?? any
        self.peer = peer
        batch = DatagramBatch(slot: 1)
        queue = DatagramQueue(capacity: queueLimit)
        watch = try FileWatch(owning: descriptor, on: loop, until: nil) { [weak self] ready in self?.becameReady(ready)
        }
        flushTimer.setTarget(self)
    }

    /// Starts to receive; the handler gets each batch once, on the loop's thread. Datagrams that the handler has queued
    /// are sent when the handler returns.
    package func receive(_ handler: @escaping (DatagramBatch) -> Void) throws(SystemError) {
        loop.checkThread()
        self.handler = handler
        try watch?.watch(for: isBlocked ? [.read, .write] : .read)
    }

    /// Queues a copy of the datagram. The queued datagram is sent at the end of the batch, at the next ``flush()``, or
    /// at the end of the loop's iteration.
    package func queue(_ datagram: Span<UInt8>, to target: Endpoint) {
        loop.checkThread()
        if !queue.append(datagram, to: target) {
            if !isBlocked { flush() }
            guard queue.append(datagram, to: target) else {
                counters.dropped += 1
                return
            }
        }
        guard !isHandling, !isFlushPlanned, !isBlocked else { return }
        isFlushPlanned = true
        flushTimer.activate()
    }

    package func queue(_ datagram: [UInt8], to target: Endpoint) { queue(datagram.span, to: target) }

    /// Sends the queued datagrams as far as the kernel accepts them. Datagrams that the kernel does not accept at
    /// present wait until the kernel has room again.
    package func flush() {
        loop.checkThread()
        guard let watch else { return }
        let wasBlocked = isBlocked
        switch queue.flush(to: watch.descriptor, counters: &counters) {
        case .done: isBlocked = false
        case .blocked: isBlocked = true
        }
        guard isBlocked != wasBlocked else { return }
        let reading = watch.interest.intersection(.read)
        // If `watch(for:)` fails, because memory is lacking, the next flush tries again.
        try? watch.watch(for: isBlocked ? reading.union(.write) : reading)
    }

    /// Sends the queued datagrams that the kernel still accepts, closes the socket, and releases the handler.
    package func close() {
        flush()
        watch = nil
        handler = { _ in }
    }

    private func becameReady(_ ready: FileWatch.Interest) {
        if ready.contains(.write) { flush() }
        if ready.contains(.read) { receiveBatch() }
    }

    /// Receives and handles one batch of datagrams. If the datagrams of a batch cause output on other sockets, the
    /// output is sent before the next batch.
    private func receiveBatch() {
        guard let watch else { return }
        // After an ICMP error for a datagram that was sent earlier, reading fails once. The event loop reads the
        // waiting datagrams in its next iteration.
        guard (try? batch.receive(from: watch.descriptor)) != nil, batch.count > 0 else { return }
        counters.received += UInt64(batch.count)
        isHandling = true
        handler(batch)
        isHandling = false
        if !queue.isEmpty, !isBlocked { flush() }
        fullBatches = batch.isFull ? fullBatches + 1 : 0
        if fullBatches == Self.batchesInARow { giveWay() }
    }

    /// Stops reading until connections have been served; if reading went on, connections would wait as long as
    /// datagrams arrive faster than the loop handles them.
    private func giveWay() {
        fullBatches = 0
        guard let watch, (try? watch.watch(for: watch.interest.subtracting(.read))) != nil else { return }
        loop.connectionTurns.giveWay { [weak self] in self?.goOn() }
    }

    // Resumes reading, and tries again later if memory is lacking.
    private func goOn() {
        guard let watch else { return }
        guard (try? watch.watch(for: watch.interest.union(.read))) == nil else { return }
        loop.post { [weak self] in self?.goOn() }
    }
}

extension UDPSocket: LoopEventTarget {
    func fired(_ cause: Int16) {
        isFlushPlanned = false
        flush()
    }
}
