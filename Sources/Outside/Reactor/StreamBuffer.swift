import Crypto

/// The input and output of a connection: without TLS directly to and from the kernel, with TLS through libevent.
///
/// A connection has one as soon as TCP is established; an accepted one, after its TLS handshake. Reading is off at
/// first.
enum StreamBuffer {
    case plain(PlainStream)
    case tls(TLSStream)

    /// Takes over a connected descriptor. With TLS, a client's handshake begins immediately, and a server's is already
    /// done.
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

    /// The maximum number of bytes read at a time.
    func limitInput(to bytes: Int) {
        switch self {
        case .plain(let stream): stream.inputLimit = bytes
        case .tls(let stream): stream.limitInput(to: bytes)
        }
    }

    /// Lends the input that was not lent yet.
    func lendInput(_ body: (Span<UInt8>) -> Void) {
        switch self {
        case .plain(let stream): stream.lendInput(body)
        case .tls(let stream): stream.lendInput(body)
        }
    }

    /// A second owner of the socket, which sees the peer's end after this buffer, whose output is finished, was
    /// released.
    func duplicateSocket() -> Descriptor? {
        switch self {
        case .plain(let stream): stream.duplicateSocket()
        case .tls(let stream): stream.duplicateSocket()
        }
    }

    /// How many bytes of output wait.
    var outputCount: Int {
        switch self {
        case .plain(let stream): stream.outputCount
        case .tls(let stream): stream.outputCount
        }
    }

    /// From now on the connection is notified of drained output as soon as at most this many bytes wait, not only when
    /// none do.
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

    /// Until ``endGathering(sending:)``, output may be kept back to be sent in one piece.
    func gather() {
        switch self {
        case .plain(let stream): stream.gather()
        case .tls: break  // libevent sends at the end of the turn
        }
    }

    /// - Returns: how many bytes wait for the peer.
    func endGathering(sending: Bool) throws(SystemError) -> Int {
        switch self {
        case .plain(let stream): try stream.endGathering(sending: sending)
        case .tls(let stream): stream.outputCount
        }
    }

    /// Sets the time limit for silence while reading is on, `nil` for none, and the time limit for output without
    /// progress.
    func setTimeouts(input: Duration?, output: Duration) {
        switch self {
        case .plain(let stream): stream.setTimeouts(input: input, output: output)
        case .tls(let stream): stream.setTimeouts(input: input, output: output)
        }
    }
}
