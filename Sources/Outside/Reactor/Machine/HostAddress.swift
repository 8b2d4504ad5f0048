package import Addressing
import Glibc

/// The IP addresses of the daemon's machine.
package enum HostAddress {
    /// The first address of the family that is neither loopback nor link-local, or else the loopback address.
    package static func primary(isV4: Bool) -> IPAddress {
        all.first { $0.isV4 == isV4 && !$0.isLoopback && !isLinkLocal($0) }
            ?? (isV4 ? .loopbackV4 : IPAddress(high: 0, low: 1))
    }

    /// The host name of this machine; `localhost` if the system does not report it.
    package static var name: String {
        let buffer = UnsafeMutablePointer<CChar>.allocate(capacity: 256)
        defer { unsafe buffer.deallocate() }
        unsafe buffer.initialize(repeating: 0, count: 256)
        guard unsafe gethostname(buffer, 255) == 0, unsafe buffer.pointee != 0 else { return "localhost" }
        return unsafe String(cString: buffer)
    }

    /// The addresses of all active interfaces, IPv4 and IPv6; empty if the system does not report them.
    package static var all: [IPAddress] {
        var list: UnsafeMutablePointer<ifaddrs>?
        guard unsafe getifaddrs(&list) == 0 else { return [] }
        defer { unsafe freeifaddrs(list) }
        var found: [IPAddress] = []
        var next = unsafe list
        while let entry = unsafe next {
            unsafe next = entry.pointee.ifa_next
            guard unsafe entry.pointee.ifa_flags & UInt32(IFF_UP) != 0, let address = unsafe entry.pointee.ifa_addr,
                let own = unsafe ipAddress(address)
            else { continue }
            found.append(own)
        }
        return found
    }

    private static func isLinkLocal(_ address: IPAddress) -> Bool {
        address.isV4 ? address.v4Bits >> 16 == 0xa9fe : address.high >> 54 == 0x3fa
    }

    private static func ipAddress(_ raw: UnsafeMutablePointer<sockaddr>) -> IPAddress? {
        switch unsafe Int32(raw.pointee.sa_family) {
        case AF_INET:
            let bits = unsafe raw.withMemoryRebound(to: sockaddr_in.self, capacity: 1) {
                unsafe $0.pointee.sin_addr.s_addr
            }
            return IPAddress(v4: UInt32(bigEndian: bits))
        case AF_INET6:
            let parts = unsafe raw.withMemoryRebound(to: sockaddr_in6.self, capacity: 1) {
                unsafe $0.pointee.sin6_addr.__in6_u.__u6_addr32
            }
            return IPAddress(
                high: UInt64(UInt32(bigEndian: parts.0)) << 32 | UInt64(UInt32(bigEndian: parts.1)),
                low: UInt64(UInt32(bigEndian: parts.2)) << 32 | UInt64(UInt32(bigEndian: parts.3)))
        default: return nil
        }
    }
}
