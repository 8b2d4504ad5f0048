package import Addressing

/// The numbers of datagrams that a UDP socket has received, sent and lost since its creation.
package struct DatagramCounters: Hashable, Sendable {
    package var received: UInt64
    package var sent: UInt64
    /// Outgoing datagrams that were dropped because the queue was full.
    package var dropped: UInt64
    /// Outgoing datagrams that the kernel refused: without a route, too long, or forbidden.
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
    /// The address of the socket, with the port that the kernel chose if port 0 was requested.
    package let local: Endpoint
    /// The only peer of a socket from ``init(sendingTo:on:queueLimit:)``.
    package let peer: Endpoint
    private(set) package var counters = DatagramCounters()

    /// The number of datagrams that the kernel dropped because its buffer was full.
    package var receiveDrops: UInt64 { watch.map { UInt64(System.receiveDrops($0.descriptor)) } ?? 0 }

    /// The time that the last received datagram waited in the kernel; `nil` if the kernel does not report the time yet.
    package var lastWait: Duration? { watch.flatMap { System.waitOfLastDatagram($0.descriptor) } }

    private let loop: EventLoop
    /// The watch that owns the descriptor; `nil` after the socket was closed.
    private var watch: FileWatch?
    private let flushTimer: LoopEvent
    private let batch: DatagramBatch
    private let queue: DatagramQueue
    private var handler: (DatagramBatch) -> Void = { _ in }
    private var isHandling = false
    private var isFlushPlanned = false
    private var isBlocked = false
    /// The number of full batches that were received in a row.
    private var fullBatches = 0

    private static let kernelBuffer: Int32 = 8 << 20
    package static let usualQueueLimit = 1024
    /// The number of full batches in a row after which waiting connections are served.
    private static let batchesInARow = 8

    /// Binds the socket, which receives nothing until ``receive(_:)``.
    ///
    /// A datagram of more than `datagramLimit` bytes is cut and marked; by default, every UDP datagram fits. At most
    /// `queueLimit` datagrams wait to be sent; further datagrams are dropped.
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

    /// Creates a socket that only sends, to one peer. If the peer does not listen, the kernel reports an error, which
    /// is treated as a failure to send. The socket reads no datagrams; the kernel drops the peer's datagrams when the
    /// socket's buffer is full.
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

    /// Starts to receive; the handler gets each batch once, on the loop's thread. Datagrams that the handler queues are
    /// sent when the handler returns.
    package func receive(_ handler: @escaping (DatagramBatch) -> Void) throws(SystemError) {
        loop.checkThread()
        self.handler = handler
        try watch?.watch(for: isBlocked ? [.read, .write] : .read)
    }

    /// Queues a copy of the datagram, which is sent at the end of the batch, by ``flush()``, or at the end of the
    /// loop's iteration.
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

    /// Sends queued datagrams until the kernel accepts no more; the remaining datagrams wait for room in the kernel.
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
        // If memory for the watch is lacking, the next flush tries again.
        try? watch.watch(for: isBlocked ? reading.union(.write) : reading)
    }

    /// Sends as many queued datagrams as the kernel accepts, closes the socket, and releases the handler.
    package func close() {
        flush()
        watch = nil
        handler = { _ in }
    }

    private func becameReady(_ ready: FileWatch.Interest) {
        if ready.contains(.write) { flush() }
        if ready.contains(.read) { receiveBatch() }
    }

    /// Receives and handles one batch of datagrams. Output on other sockets that the batch causes is sent before the
    /// next batch.
    private func receiveBatch() {
        guard let watch else { return }
        // After an ICMP error for an earlier datagram, reading fails once; the next iteration of the loop reads again.
        guard (try? batch.receive(from: watch.descriptor)) != nil, batch.count > 0 else { return }
        counters.received += UInt64(batch.count)
        isHandling = true
        handler(batch)
        isHandling = false
        if !queue.isEmpty, !isBlocked { flush() }
        fullBatches = batch.isFull ? fullBatches + 1 : 0
        if fullBatches == Self.batchesInARow { giveWay() }
    }

    /// Stops reading until connections have been served. Otherwise, a flood of datagrams would prevent all work for
    /// connections.
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
