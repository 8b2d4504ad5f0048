import TestSupport

extension TestKeys {
    static let rsa1024 = """
        -----BEGIN PRIVATE KEY-----
        MIICdgIBADANBgkqhkiG9w0BAQEFAASCAmAwggJcAgEAAoGBAPEyubY7pWxab2RR
        AIOpj8qnKmBqySJhxmtSwObDp+kMiLi6I2ejzL8zrMHSwY9vRuwBtgz4m0t6fPqL
        D9MRfXelWak4viqJA5oekkE9+PWYeaFBM9WaFj3N51V54slxn04nZEx+CRePhsA6
        JhtiZVN/+3hKsDz6gfIGwyI+S3gjAgMBAAECgYB0Bri7Zvnuo5pOIYEj1N9s1vlV
        pEjZFzvByO8ukxQk0Xi7lB8P7gXCPHNwUZf3DcqKIVCX8MeTiXqxc0/LcvBtPJ5v
        Rd5fdfJWdyQqEO8rY5rNDrds+xGvtTCzEYGTZQ+HjI8k93Z21qPo8Z5Cam12iiux
        LncA8/5XrBwc5gYG8QJBAP9h87es3xpoy/s9m/t0WXFYo99Kw7/kRQ8O2zIGNH1f
        +ZD69+4UbcaG1fOXXTOewoeNh5MZEHeqIC1hLigEzC8CQQDxx/6/JFFbdW6uIjVz
        bK9b8Q75k76IwnUoRqrztsyKVc1qp1tcuKsK/sgb+zad/fR6tZlTTbTPX9Inb7/v
        /VJNAkBGqP57ApzUPMy7nidLYrzgrKrivFf+/xTQfsbNR4Q8cFKn95ijygk5ldMa
        y/Wgs7uVL+akH5o70dmHVM0li3ZHAkAd5rb5mps5LV+/x1lG6hUR0NEiSoRQ04O7
        tGml9GB9ZzkdTI8++1Oj63iCBWJuzZ5zoovQwpZu4xHRcL+TBYgtAkEAn110cDYZ
        tD2ipJGyn9Upuc+siqrEVLfnbG7dJeTEONHsUMv0WJ7o6jehpoLHFf522BGSTWMF
        wQ3ef8nQ2STyeg==
        -----END PRIVATE KEY-----
        """

    static let p384 = """
        -----BEGIN PRIVATE KEY-----
        MIG2AgEAMBAGByqGSM49AgEGBSuBBAAiBIGeMIGbAgEBBDCQBMGJKZ/dy0LAvDE3
        SN73qKVFjNGBalztTUm5xRp32G9WB0pDWS0lMmc4dzDUjYWhZANiAASGKKyubwuw
        hK9HUK3TbHqyU7JGumMGWBfmTP+Ur62ujp1vK69h3ceiKBnLRvXfdhwDT9kFwRpb
        8TS/nKk+ZNjGP7q6HJBFOuY76inh4EpCR6sb/8xbyP/AUKR+HO6vxE8=
        -----END PRIVATE KEY-----
        """

    // One key in the formats of several programs.

    static let sec1 = """
        -----BEGIN EC PRIVATE KEY-----
        MHcCAQEEIDhJ39xCZga8WmNEOSeHE96tKGuAkL7ZI3208jQhAaKMoAoGCCqGSM49
        AwEHoUQDQgAEZQG/aGYoGY+9j2hHFIt6Dv2Ylawy6gEkFc2DM/OYdEOO1q6OHaru
        00bqBxGXc8mAGUzOCHoNkVjLzQafc+pVGA==
        -----END EC PRIVATE KEY-----
        """

    static let sec1WithParameters = """
        -----BEGIN EC PARAMETERS-----
        BggqhkjOPQMBBw==
        -----END EC PARAMETERS-----
        -----BEGIN EC PRIVATE KEY-----
        MHcCAQEEIDhJ39xCZga8WmNEOSeHE96tKGuAkL7ZI3208jQhAaKMoAoGCCqGSM49
        AwEHoUQDQgAEZQG/aGYoGY+9j2hHFIt6Dv2Ylawy6gEkFc2DM/OYdEOO1q6OHaru
        00bqBxGXc8mAGUzOCHoNkVjLzQafc+pVGA==
        -----END EC PRIVATE KEY-----
        """

    static let sec1Compressed = """
        -----BEGIN EC PRIVATE KEY-----
        MFcCAQEEIDhJ39xCZga8WmNEOSeHE96tKGuAkL7ZI3208jQhAaKMoAoGCCqGSM49
        AwEHoSQDIgACZQG/aGYoGY+9j2hHFIt6Dv2Ylawy6gEkFc2DM/OYdEM=
        -----END EC PRIVATE KEY-----
        """

    static let sec1WithoutPublicKey = """
        -----BEGIN EC PRIVATE KEY-----
        MDECAQEEIDhJ39xCZga8WmNEOSeHE96tKGuAkL7ZI3208jQhAaKMoAoGCCqGSM49
        AwEH
        -----END EC PRIVATE KEY-----
        """

    static let sec1AsPKCS8 = """
        -----BEGIN PRIVATE KEY-----
        MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgOEnf3EJmBrxaY0Q5
        J4cT3q0oa4CQvtkjfbTyNCEBooyhRANCAARlAb9oZigZj72PaEcUi3oO/ZiVrDLq
        ASQVzYMz85h0Q47Wro4dqu7TRuoHEZdzyYAZTM4Ieg2RWMvNBp9z6lUY
        -----END PRIVATE KEY-----
        """

    static let sec1PublicPoint =
        "046501bf686628198fbd8f6847148b7a0efd9895ac32ea012415cd8333f39874"
        + "438ed6ae8e1daaeed346ea07119773c980194cce087a0d9158cbcd069f73ea5518"

    /// The key `sec1`, encrypted with a passphrase.
    static let encrypted = """
        -----BEGIN ENCRYPTED PRIVATE KEY-----
        MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAivA9QIsNLvOAICCAAw
        DAYIKoZIhvcNAgkFADAdBglghkgBZQMEAQIEEE74VEnLZZ/FzqCnLXV1kRYEgZCA
        1zzNtlQ2AttLRDTtkvlUazOxEZr8Bm/aG63aHO60Xvfi7A6Zm7sNjRf7VtV6SD2J
        lB9Kq67EEg1fYEAbDf3aqciHpK9pSchNJENQmw3aFKpFDEMdygwdS/plU3v3E9EW
        QHSsy0KLuXWTcUEK/gX8QAUSRzVBTCdY+8xu0UlQeWzLjk5zKe2soHyMTBkfe+Y=
        -----END ENCRYPTED PRIVATE KEY-----
        """

    /// A signature by the key `rsa2048`, made by another library for the input of RFC 7515 appendix A.3 (RS256).
    static let rs256Signature = """
        bIpJWQPrRhX55LUn9ODv9IkSn5vikkOoWf1X1rnu39S4JOPEmkI42BTKhGiekg4eEpZFNzK9WJ2bxHVrRGw1Q4_HeBg_BSMaPrsk\
        pZjgXJ7xxRMCk6ZrctvwXmHaaHwZUqcI3SUyispKmxCZSogcklSJnT43jKOPYriR5myRX2HSNsgdY1-GbnnS3K1Q5JjO-wnXpk1Y\
        XMEPHHVx2yyYIm9-EMzTpjdUxHcREqsviCrm-xmrq1E00O9qwmV48dN68JZW9NNVQMJaPI3PN7jdkEVQajrkGUthGzFlz_W1H4bC\
        6hfxtcyZF68LGG_LKMT9DnIFlNvMfnAS2pHGXmsiDQ
        """
}
