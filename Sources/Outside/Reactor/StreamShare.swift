import Crypto

/// The memory, the deadlines and the sockets of ended connections that all streams of one loop share.
@safe
final class StreamShare {
    private let memory = UnsafeMutablePointer<UInt8>.allocate(capacity: StreamShare.size)
    /// The output collected so far, of at most one stream at a time.
    var gathered: [UInt8] = []
    var isGathering = false
    let farewells = LingeringSockets()
    /// The memory in which TLS sessions decrypt and encrypt.
    private(set) lazy var records = TLSRecords()
    /// The deadlines of streams with the first priority: connections to push providers.
    private let urgentDeadlines = StreamDeadlines(turn: .first)
    private let deadlines = StreamDeadlines(turn: .usual)

    /// The maximum number of bytes that a connection reads or collects in one step. The connection reads its next input
    /// only after other connections were served.
    static let size = TLSRecords.inputLimit

    deinit { unsafe memory.deallocate() }

    /// Memory for at most `limit` bytes, valid until the next read.
    func room(upTo limit: Int) -> UnsafeMutableBufferPointer<UInt8> {
        unsafe UnsafeMutableBufferPointer(start: memory, count: min(limit, Self.size))
    }

    /// The deadlines of the streams with this priority.
    func deadlines(for turn: LoopTurn) -> StreamDeadlines { turn == .first ? urgentDeadlines : deadlines }
}
