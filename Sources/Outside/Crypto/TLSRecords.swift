import COpenSSL

/// The memory through which the TLS sessions of one event loop read and write their records.
///
/// A session uses the memory only during a call, so that thousands of sessions share it. Before the next call for any
/// session, the caller must have used the decrypted bytes and taken the output.
@safe
package final class TLSRecords {
    private let raw: UnsafeMutablePointer<tls_records>
    private let plain: UnsafeMutablePointer<UInt8>

    /// The maximum number of bytes that a session decrypts in one call.
    package static let inputLimit = 16 << 10
    /// The decrypted bytes of one call can be those of ``inputLimit`` and of a record that was incomplete before.
    static let plainRoom = inputLimit + (17 << 10)
    /// After a larger output, the memory of the output is released.
    private static let spareRoom = 64 << 10

    package init() {
        unsafe raw = .allocate(capacity: 1)
        unsafe raw.initialize(to: tls_records())
        unsafe plain = .allocate(capacity: Self.plainRoom)
    }

    deinit {
        unsafe free(raw.pointee.output)
        unsafe raw.deallocate()
        unsafe plain.deallocate()
    }

    /// Lends the memory to a session while `body` runs.
    func lend<Result>(
        _ input: Span<UInt8> = Span(), to session: OpaquePointer, _ body: (UnsafeMutablePointer<UInt8>) -> Result
    ) -> Result {
        unsafe input.withUnsafeBufferPointer { input in
            unsafe raw.pointee.input = input.baseAddress
            unsafe raw.pointee.input_count = input.count
            unsafe tls_lend_records(session, raw)
            defer {
                unsafe tls_lend_records(session, nil)
                unsafe raw.pointee.input = nil
                unsafe raw.pointee.input_count = 0
            }
            return unsafe body(plain)
        }
    }

    /// The number of bytes of the lent input that OpenSSL has not read.
    var unreadCount: Int { unsafe raw.pointee.input_count }

    /// The bytes that the last call of ``TLSSession/open(_:with:)`` has decrypted.
    package func withOpened(_ count: Int, _ body: (Span<UInt8>) -> Void) {
        body(unsafe Span(_unsafeStart: plain, count: count))
    }

    /// Passes the records that wait to be sent to `body`, and drops them.
    package func takeOutput<Failure: Error>(_ body: (Span<UInt8>) throws(Failure) -> Void) throws(Failure) {
        defer { dropOutput() }
        let count = unsafe raw.pointee.output_count
        guard count > 0, let start = unsafe raw.pointee.output else { return }
        try body(unsafe Span(_unsafeStart: start, count: count))
    }

    package func dropOutput() {
        unsafe raw.pointee.output_count = 0
        guard unsafe raw.pointee.output_room > Self.spareRoom else { return }
        unsafe free(raw.pointee.output)
        unsafe raw.pointee.output = nil
        unsafe raw.pointee.output_room = 0
    }
}

/// The way by which OpenSSL reads and writes records in memory; `nil` if memory is lacking.
@safe
enum TLSRecordsMethod {
    nonisolated(unsafe) static let raw: OpaquePointer? = unsafe tls_records_method()
}
