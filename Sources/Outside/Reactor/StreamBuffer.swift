import Crypto

/// The input and output of a connection. Without TLS, bytes go directly to and from the kernel; with TLS, through
/// libevent.
///
/// A connection has a buffer as soon as TCP is established, or for an accepted TLS connection, after the handshake.
/// Reading is off at first.
enum StreamBuffer {
    case plain(PlainStream)
    case tls(TLSStream)

    /// Takes over a connected descriptor. With TLS, a client begins its handshake immediately. A server's handshake is
    /// already done.
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

    /// Sets the maximum number of bytes that are read at a time.
    func limitInput(to bytes: Int) {
        switch self {
        case .plain(let stream): stream.inputLimit = bytes
        case .tls(let stream): stream.limitInput(to: bytes)
        }
    }

    /// Calls `body` with the input that it has not got yet.
    func lendInput(_ body: (Span<UInt8>) -> Void) {
        switch self {
        case .plain(let stream): stream.lendInput(body)
        case .tls(let stream): stream.lendInput(body)
        }
    }

    /// A second descriptor of the socket. When this buffer has sent all output and was released, the descriptor shows
    /// when the peer ends its side.
    func duplicateSocket() -> Descriptor? {
        switch self {
        case .plain(let stream): stream.duplicateSocket()
        case .tls(let stream): stream.duplicateSocket()
        }
    }

    /// The number of bytes of output that wait.
    var outputCount: Int {
        switch self {
        case .plain(let stream): stream.outputCount
        case .tls(let stream): stream.outputCount
        }
    }

    /// From now on the connection is notified of drained output when at most this many bytes wait. Before, it is
    /// notified when no byte waits.
    func tellOutput(below bytes: Int) {
        switch self {
        case .plain(let stream): stream.outputMark = bytes
        case .tls(let stream): stream.tellOutput(below: bytes)
        }
    }

    /// Sends the bytes, or appends them to the waiting output.
    ///
    /// - Returns: how many bytes wait for the peer.
    func write(_ bytes: Span<UInt8>) throws(SystemError) -> Int {
        switch self {
        case .plain(let stream): try stream.write(bytes)
        case .tls(let stream): stream.write(bytes)
        }
    }

    /// Keeps output back until ``endGathering(sending:)``, so that it can be sent in one piece.
    func gather() {
        switch self {
        case .plain(let stream): stream.gather()
        case .tls: break  // libevent sends at the end of the turn
        }
    }

    /// Ends the gathering of output, and sends or drops it.
    ///
    /// - Returns: how many bytes wait for the peer.
    func endGathering(sending: Bool) throws(SystemError) -> Int {
        switch self {
        case .plain(let stream): try stream.endGathering(sending: sending)
        case .tls(let stream): stream.outputCount
        }
    }

    /// Sets two time limits: for silence while reading is on (`nil` for none), and for waiting output without progress.
    func setTimeouts(input: Duration?, output: Duration) {
        switch self {
        case .plain(let stream): stream.setTimeouts(input: input, output: output)
        case .tls(let stream): stream.setTimeouts(input: input, output: output)
        }
    }
}
