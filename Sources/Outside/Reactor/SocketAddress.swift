import Addressing
import Glibc

/// Converts an `Endpoint` to the kernel's `sockaddr_in` or `sockaddr_in6`, and back.
///
/// The code writes bytes and no C structures, because ``DatagramBatch`` has raw slots of ``slotSize`` bytes.
enum SocketAddress {
    /// The size in bytes of a slot for one IPv4 or IPv6 address, rounded up for alignment.
    static let slotSize = 32

    /// Writes the address, and returns its length in bytes.
    ///
    /// - Precondition: the slot has ``slotSize`` bytes.
    static func store(_ endpoint: Endpoint, in slot: UnsafeMutableRawPointer) -> socklen_t {
        let address = endpoint.address
        unsafe slot.storeBytes(of: endpoint.port.bigEndian, toByteOffset: 2, as: UInt16.self)
        if address.isV4 {
            unsafe slot.storeBytes(of: UInt16(AF_INET), as: UInt16.self)
            unsafe slot.storeBytes(of: address.v4Bits.bigEndian, toByteOffset: 4, as: UInt32.self)
            unsafe slot.storeBytes(of: 0, toByteOffset: 8, as: UInt64.self)
            return 16
        }
        unsafe slot.storeBytes(of: UInt16(AF_INET6), as: UInt16.self)
        unsafe slot.storeBytes(of: 0, toByteOffset: 4, as: UInt32.self)
        unsafe slot.storeBytes(of: address.high.bigEndian, toByteOffset: 8, as: UInt64.self)
        unsafe slot.storeBytes(of: address.low.bigEndian, toByteOffset: 16, as: UInt64.self)
        unsafe slot.storeBytes(of: 0, toByteOffset: 24, as: UInt32.self)
        return 28
    }

    /// Reads an address that the kernel wrote; `nil` if the address is neither IPv4 nor IPv6.
    static func load(_ slot: UnsafeRawPointer, length: socklen_t) -> Endpoint? {
        guard length >= 8 else { return nil }
        let family = Int32(unsafe slot.loadUnaligned(as: UInt16.self))
        let port = unsafe UInt16(bigEndian: slot.loadUnaligned(fromByteOffset: 2, as: UInt16.self))
        switch family {
        case AF_INET:
            let bits = unsafe UInt32(bigEndian: slot.loadUnaligned(fromByteOffset: 4, as: UInt32.self))
            return Endpoint(IPAddress(v4: bits), port)
        case AF_INET6:
            guard length >= 24 else { return nil }
            let high = unsafe UInt64(bigEndian: slot.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
            let low = unsafe UInt64(bigEndian: slot.loadUnaligned(fromByteOffset: 16, as: UInt64.self))
            return Endpoint(IPAddress(high: high, low: low), port)
        default: return nil
        }
    }

    /// Calls `body` with the address as a C `sockaddr`.
    static func with<Result, Failure: Error>(
        _ endpoint: Endpoint, _ body: (UnsafePointer<sockaddr>, socklen_t) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        var storage = sockaddr_in6()
        return try unsafe withUnsafeMutablePointer(to: &storage) { pointer throws(Failure) in
            var length: socklen_t = 0
            let raw = UnsafeMutableRawPointer(pointer)
            // `store(_:in:)` writes at most 28 bytes, the size of `sockaddr_in6`.
            length = unsafe store(endpoint, in: raw)
            return try unsafe body(raw.assumingMemoryBound(to: sockaddr.self), length)
        }
    }

    /// Asks the kernel for the local or remote address of a descriptor.
    static func read(
        _ call: (Int32, UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> Int32, of descriptor: Int32
    ) -> Endpoint? {
        var storage = sockaddr_storage()
        var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
        return unsafe withUnsafeMutablePointer(to: &storage) { pointer in
            let raw = UnsafeMutableRawPointer(pointer)
            guard unsafe call(descriptor, raw.assumingMemoryBound(to: sockaddr.self), &length) == 0 else { return nil }
            return unsafe load(raw, length: length)
        }
    }
}
