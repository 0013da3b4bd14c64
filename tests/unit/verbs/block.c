/* A library with memory that programs send from and receive in. */
unsigned char block[1 << 20] = {1};
