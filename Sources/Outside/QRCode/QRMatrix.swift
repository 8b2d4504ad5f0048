internal import CQREncode

/// The modules of a QR code (ISO/IEC 18004): a square of dark and light modules, without the quiet zone around it.
package struct QRMatrix: Hashable, Sendable {
    /// The number of modules in a row.
    package let width: Int
    /// Whether each module is dark, row by row.
    private let modules: [Bool]

    /// The width of the light zone around a QR code, which readers need (ISO/IEC 18004 section 5.3.8).
    package static let quietZone = 4

    /// Encodes bytes with error correction level M, which repairs about 15 % of the code.
    ///
    /// - Returns: the modules; `nil` if no QR code has room for the bytes, or memory is lacking.
    package init?(_ bytes: [UInt8]) {
        guard let count = Int32(exactly: bytes.count), count > 0 else { return nil }
        let code = unsafe bytes.withUnsafeBufferPointer { bytes in
            unsafe QRcode_encodeData(count, bytes.baseAddress, 0, QR_ECLEVEL_M)
        }
        guard let code = unsafe code else { return nil }
        defer { unsafe QRcode_free(code) }
        width = Int(unsafe code.pointee.width)
        guard width > 0, let data = unsafe code.pointee.data else { return nil }
        // The lowest bit of each byte says whether the module is dark.
        modules = (0..<width * width).map { unsafe data[$0] & 1 == 1 }
    }

    package init?(_ text: String) { self.init(Array(text.utf8)) }

    /// Whether the module is dark. Each module outside the square is light, as the quiet zone is.
    package func isDark(_ column: Int, _ row: Int) -> Bool {
        guard (0..<width).contains(column), (0..<width).contains(row) else { return false }
        return modules[row * width + column]
    }

    /// The columns and rows of the QR code with its quiet zone.
    var places: Range<Int> { -Self.quietZone..<width + Self.quietZone }
}
