import Crypto

/// The input and output of one connection, with or without TLS. Bytes without TLS pass directly to and from the kernel,
/// and bytes with TLS through libevent.
///
/// A connection gets its buffer when TCP is established, or after the handshake for an accepted TLS connection. A new
/// buffer does not read until reading is turned on.
enum StreamBuffer {
    case plain(PlainStream)
    case tls(TLSStream)

    /// Takes ownership of the file descriptor of a connected socket. A TLS client begins its handshake now; a TLS
    /// server has already finished its handshake.
    init(_ descriptor: consuming Descriptor, of connection: StreamConnection, turn: LoopTurn) throws(SystemError) {
        if let session = connection.tls {
            self = .tls(try TLSStream(descriptor, of: connection, session: session, turn: turn))
        } else {
            self = .plain(try PlainStream(descriptor, of: connection, turn: turn))
        }
    }

    func setReading(_ isOn: Bool) throws(SystemError) {
        switch self {
        case .plain(let stream): try stream.setReading(isOn)
        case .tls(let stream): stream.setReading(isOn)
        }
    }

    /// Sets the maximum number of bytes that are read in one step.
    func limitInput(to bytes: Int) {
        switch self {
        case .plain(let stream): stream.inputLimit = bytes
        case .tls(let stream): stream.limitInput(to: bytes)
        }
    }

    /// Passes the waiting input to `body`.
    func lendInput(_ body: (Span<UInt8>) -> Void) {
        switch self {
        case .plain(let stream): stream.lendInput(body)
        case .tls(let stream): stream.lendInput(body)
        }
    }

    /// Duplicates the socket's descriptor. With the duplicate, the daemon notices the end of the peer's output even
    /// after the buffer was released.
    func duplicateSocket() -> Descriptor? {
        switch self {
        case .plain(let stream): stream.duplicateSocket()
        case .tls(let stream): stream.duplicateSocket()
        }
    }

    /// The size in bytes of the output that waits to be sent.
    var outputCount: Int {
        switch self {
        case .plain(let stream): stream.outputCount
        case .tls(let stream): stream.outputCount
        }
    }

    /// Sets the number of waiting bytes at which the connection is notified that output was sent; initially 0.
    func tellOutput(below bytes: Int) {
        switch self {
        case .plain(let stream): stream.outputMark = bytes
        case .tls(let stream): stream.tellOutput(below: bytes)
        }
    }

    /// Sends the bytes, or queues them behind waiting output.
    ///
    /// - Returns: the number of bytes that still wait for the peer.
    func write(_ bytes: Span<UInt8>) throws(SystemError) -> Int {
        switch self {
        case .plain(let stream): try stream.write(bytes)
        case .tls(let stream): stream.write(bytes)
        }
    }

    /// Collects output until ``endGathering(sending:)``, which sends the output in one piece.
    func gather() {
        switch self {
        case .plain(let stream): stream.gather()
        case .tls: break  // libevent sends the output at the end of the loop's iteration
        }
    }

    /// Sends the collected output, or drops the output if `sending` is false.
    ///
    /// - Returns: the number of bytes that still wait for the peer.
    func endGathering(sending: Bool) throws(SystemError) -> Int {
        switch self {
        case .plain(let stream): try stream.endGathering(sending: sending)
        case .tls(let stream): stream.outputCount
        }
    }

    /// Sets two time limits: for a silent peer while reading is on (`nil` for no limit), and for output of which the
    /// peer reads nothing.
    func setTimeouts(input: Duration?, output: Duration) {
        switch self {
        case .plain(let stream): stream.setTimeouts(input: input, output: output)
        case .tls(let stream): stream.setTimeouts(input: input, output: output)
        }
    }
}
