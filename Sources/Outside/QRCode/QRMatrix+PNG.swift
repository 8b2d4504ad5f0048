/// Writes a QR code as a PNG picture (RFC 2083) in two colours.
extension QRMatrix {
    /// A picture in which each module is `scale` pixels wide.
    package func png(scale: Int = 8) -> [UInt8] {
        let scale = max(1, min(scale, 64))
        let size = places.count * scale
        var header: [UInt8] = []
        header.append(number: UInt32(size))
        header.append(number: UInt32(size))
        // The picture has one grey bit for each pixel, and the only methods of compression and filtering that PNG has.
        header += [1, 0, 0, 0, 0]
        var picture: [UInt8] = [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A]
        picture.append(chunk: "IHDR", header)
        picture.append(chunk: "IDAT", Self.zlib(pixels(scale)))
        picture.append(chunk: "IEND", [])
        return picture
    }

    /// The rows of pixels; before each row is the number of its PNG filter, which is 0 for no filter. A pixel's bit is
    /// 1 if the pixel is white.
    private func pixels(_ scale: Int) -> [UInt8] {
        var pixels: [UInt8] = []
        for row in places {
            var line: [UInt8] = [0]
            var (byte, bits) = (UInt8(0), 0)
            for column in places {
                for _ in 0..<scale {
                    byte = byte << 1 | (isDark(column, row) ? 0 : 1)
                    bits += 1
                    guard bits == 8 else { continue }
                    line.append(byte)
                    (byte, bits) = (0, 0)
                }
            }
            if bits > 0 { line.append(byte << UInt8(8 - bits)) }
            for _ in 0..<scale { pixels += line }
        }
        return pixels
    }

    /// The bytes as a zlib stream (RFC 1950) of stored blocks. The pictures are so small that they need no compression.
    private static func zlib(_ bytes: [UInt8]) -> [UInt8] {
        let longest = 65_535
        var stream: [UInt8] = [0x78, 0x01]
        var start = 0
        repeat {
            let end = min(start + longest, bytes.count)
            let count = UInt16(end - start)
            stream.append(end == bytes.count ? 1 : 0)
            for number in [count, ~count] { stream += [UInt8(number & 0xFF), UInt8(number >> 8)] }
            stream += bytes[start..<end]
            start = end
        } while start < bytes.count
        var (low, high) = (UInt32(1), UInt32(0))
        for byte in bytes {
            low = (low + UInt32(byte)) % 65_521
            high = (high + low) % 65_521
        }
        stream.append(number: high << 16 | low)
        return stream
    }
}

extension [UInt8] {
    fileprivate mutating func append(number: UInt32) {
        for shift in stride(from: UInt32(24), through: 0, by: -8) { append(UInt8(truncatingIfNeeded: number >> shift)) }
    }

    /// Appends a chunk: its length, its name, its bytes, and the CRC of name and bytes.
    fileprivate mutating func append(chunk name: String, _ bytes: [UInt8]) {
        append(number: UInt32(bytes.count))
        let checked = Array(name.utf8) + bytes
        self += checked
        var crc = UInt32.max
        for byte in checked {
            crc ^= UInt32(byte)
            for _ in 0..<8 { crc = crc >> 1 ^ (crc & 1 == 1 ? 0xEDB8_8320 : 0) }
        }
        append(number: ~crc)
    }
}
